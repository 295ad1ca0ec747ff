//! Whether the sandbox was proved to hold, and so whether programs may run.
//!
//! ```text
//!             the check passed, or the operator allows what failed
//! Pending ─────────────────────────────────────────────────────────▶ Held
//!    ▲ │                                                              │ ▲
//!    │ └──────────────────────▶ Broken ◀──── checked again ───────────┘ │
//!    │                             └────────────────────────────────────┘
//!    └── the engine went away
//! ```

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;

use crate::control::Control;

/// How long a run waits for the check to end.
const WAIT: Duration = Duration::from_secs(15);

/// What is known about the sandbox. Clones share it.
#[derive(Clone, Debug)]
pub struct Proof(Arc<watch::Sender<ProofState>>);

/// What is known about the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProofState {
    /// Nothing yet.
    #[default]
    Pending,
    /// Programs may run.
    Held,
    /// They may not, for these reasons.
    Broken(Vec<Weakness>),
}

/// A control that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weakness {
    /// Which one.
    pub control: Control,
    /// What was found.
    pub found: String,
    /// Whether it was tried: if not, nothing is known of it.
    pub was_tried: bool,
}

/// Why a program may not run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unproven {
    /// The check did not end in time.
    #[error("the server is still checking that its sandbox holds: try again in a few seconds")]
    Pending,
    /// A control failed.
    #[error(
        "no code is run here, because the server's sandbox is weaker than it must be: {0}. Its operator can see more \
         with `mcp-code-sandbox selftest`"
    )]
    Broken(String),
    /// Something kept the controls from being tried.
    #[error(
        "no code is run here, because the server's sandbox could not be checked: {0}. Its operator can see more with \
         `mcp-code-sandbox selftest`"
    )]
    Unchecked(String),
}

impl Default for Proof {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(ProofState::Pending)))
    }
}

impl Proof {
    /// Sets what is known now.
    pub fn set(&self, state: ProofState) {
        self.0.send_if_modified(|current| {
            let changed = *current != state;
            *current = state;
            changed
        });
    }

    /// Whether programs may run, as far as is known. Does not wait.
    ///
    /// # Errors
    /// They may not, or it is not known yet.
    pub fn now(&self) -> Result<(), Unproven> {
        match &*self.0.borrow() {
            ProofState::Pending => Err(Unproven::Pending),
            ProofState::Held => Ok(()),
            ProofState::Broken(weaknesses) if weaknesses.iter().any(|one| one.was_tried) => {
                Err(Unproven::Broken(sentence(weaknesses)))
            }
            ProofState::Broken(weaknesses) => {
                let found = findings(weaknesses)
                    .into_iter()
                    .map(|(_, found)| found.trim_end_matches('.'));
                Err(Unproven::Unchecked(found.collect::<Vec<_>>().join("; ")))
            }
        }
    }

    /// Whether this is not known yet.
    pub fn is_pending(&self) -> bool {
        *self.0.borrow() == ProofState::Pending
    }

    /// The same as [`Self::now`], after a wait if it is not known yet.
    ///
    /// # Errors
    /// They may not, or it is still not known.
    pub async fn wait(&self) -> Result<(), Unproven> {
        let mut states = self.0.subscribe();
        let known = states.wait_for(|state| *state != ProofState::Pending);
        // The sender lives in `self`: waiting can only time out, and then `now` says so.
        let _ = tokio::time::timeout(WAIT, known).await;
        self.now()
    }

    /// Resolves as soon as programs may run.
    pub async fn held(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self
            .0
            .subscribe()
            .wait_for(|state| *state == ProofState::Held)
            .await;
    }
}

/// What was found, each once with all the controls that it concerns: one cause can affect all of them.
pub fn findings(weaknesses: &[Weakness]) -> Vec<(Vec<&'static str>, &str)> {
    let mut findings: Vec<(Vec<_>, &str)> = Vec::new();
    for Weakness { control, found, .. } in weaknesses {
        match findings.iter_mut().find(|(_, known)| known == found) {
            Some((controls, _)) => controls.push(control.name()),
            None => findings.push((vec![control.name()], found)),
        }
    }
    findings
}

fn sentence(weaknesses: &[Weakness]) -> String {
    let each = findings(weaknesses).into_iter();
    let each = each.map(|(controls, found)| match &controls[..] {
        [control] => format!("control {control} failed ({found})"),
        controls => format!("controls {} failed ({found})", controls.join(", ")),
    });
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_run_waits_for_the_check_but_not_for_ever() {
        let proof = Proof::default();
        assert_eq!(proof.wait().await, Err(Unproven::Pending));
        let (waited, ()) = tokio::join!(proof.wait(), async { proof.set(ProofState::Held) });
        assert_eq!(waited, Ok(()));
    }

    #[test]
    fn the_refusal_names_every_control_that_failed() {
        let proof = Proof::default();
        let weakness = |control, found: &str| Weakness {
            control,
            found: found.to_owned(),
            was_tried: true,
        };
        proof.set(ProofState::Broken(vec![
            weakness(Control::Identity, "CapEff is ffff"),
            weakness(Control::Syscalls, "bpf"),
            weakness(Control::Limits, "bpf"),
        ]));
        let message = proof.now().unwrap_err().to_string();
        assert!(
            message.contains(
                "control identity failed (CapEff is ffff); controls syscalls, limits failed (bpf)"
            ),
            "{message}"
        );
    }
}
