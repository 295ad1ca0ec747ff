//! The result of trying a control.

use serde::{Serialize, Serializer};
use strum::IntoStaticStr;

use super::attack::NO_CPU_LIMIT;
use super::harness::Warmth;
use crate::control::Control;

/// Whether a control held.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Verdict {
    /// It did; what was seen.
    Pass(String),
    /// It did not, or there is no evidence that it did; what was found.
    #[strum(serialize = "FAIL")]
    Fail(String),
    /// It could not be tried; why.
    Skipped(String),
}

impl Verdict {
    /// What was seen, or why nothing was.
    pub fn found(&self) -> &str {
        let (Self::Pass(found) | Self::Fail(found) | Self::Skipped(found)) = self;
        found
    }

    /// Pass when `held`, and what was seen either way.
    pub(super) fn when(held: bool, found: impl Into<String>) -> Self {
        if held {
            Self::Pass(found.into())
        } else {
            Self::Fail(found.into())
        }
    }
}

/// One control, tried in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Which control.
    #[serde(serialize_with = "name")]
    pub control: Control,
    /// In which kind of sandbox.
    pub way: Warmth,
    /// What was tried.
    pub tried: &'static str,
    /// `pass`, `fail` or `skipped`.
    #[serde(serialize_with = "word")]
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What this host lacks, where the control held all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whether a failure is the sandbox's: otherwise, something kept the control from being tried.
    #[serde(skip)]
    pub was_tried: bool,
    /// What to do about it; nothing when it passed.
    pub advice: Option<&'static str>,
}

impl Row {
    pub(super) fn new(control: Control, way: Warmth, verdict: Verdict) -> Self {
        let about = control.about();
        let advice = match &verdict {
            Verdict::Pass(_) => None,
            Verdict::Fail(_) => Some(about.advice),
            Verdict::Skipped(why) if why == NO_CPU_LIMIT => {
                Some("set RUN_CPUS, unless the kernel of the container engine has no CFS quotas")
            }
            Verdict::Skipped(_) => Some("build the runner images with ./build.sh, then try again"),
        };
        Self {
            control,
            way,
            tried: about.tried,
            found: verdict.found().to_owned(),
            notes: Vec::new(),
            was_tried: true,
            verdict,
            advice,
        }
    }

    /// A row for a control that could not be tried, though there is a runner: whether it holds is not known, so it
    /// counts as failed. The reason is not the sandbox.
    pub(super) fn untried(control: Control, way: Warmth, why: &str) -> Self {
        Self {
            was_tried: false,
            advice: Some("this says nothing of the sandbox: mend the cause, and it is tried again"),
            ..Self::new(
                control,
                way,
                Verdict::Fail(format!("it could not be tried: {why}")),
            )
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn name<S: Serializer>(control: &Control, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(control.name())
}

fn word<S: Serializer>(verdict: &Verdict, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&verdict.into_str().to_lowercase())
}
