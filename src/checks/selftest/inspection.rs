//! Controls that can be seen from inside: one run carries out all inspections, each in a process of its own.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::harness::{Attempt, Ended, Harness, Warmth};
use super::{Row, Verdict};
use crate::control::Control;
use crate::executor::NetworkRules;
use crate::run::outcome::RunStatus;
use crate::runner::catalog::EngineView;

const HARNESS: &str = include_str!("programs/harness.py");
/// How long all of them may take.
const SECONDS: u64 = 30;
/// How often it is tried when the engine fails, and the pause in between.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// Findings that a row shows; the rest is counted.
const SHOWN: usize = 8;

/// A program that looks around.
pub(super) struct Inspection {
    pub(super) control: Control,
    program: &'static str,
}

/// All of them.
pub(super) const INSPECTIONS: &[Inspection] = &[
    Inspection {
        control: Control::Identity,
        program: include_str!("programs/identity.py"),
    },
    Inspection {
        control: Control::Syscalls,
        program: include_str!("programs/syscalls.py"),
    },
    Inspection {
        control: Control::WritablePaths,
        program: include_str!("programs/writable_paths.py"),
    },
    Inspection {
        control: Control::KernelLevers,
        program: include_str!("programs/kernel_levers.py"),
    },
    Inspection {
        control: Control::Secrets,
        program: include_str!("programs/secrets.py"),
    },
    Inspection {
        control: Control::PidOne,
        program: include_str!("programs/pid_one.py"),
    },
    Inspection {
        control: Control::Limits,
        program: include_str!("programs/limits.py"),
    },
    Inspection {
        control: Control::NetworkOff,
        program: include_str!("programs/network_off.py"),
    },
];

/// What an inspection printed.
#[derive(Debug, Deserialize)]
struct Findings {
    control: String,
    tried: u64,
    found: Vec<String>,
    /// What this host lacks without being unsafe.
    #[serde(default)]
    notes: Vec<String>,
    /// Why it did not finish.
    broke: Option<String>,
}

/// Carries out all inspections in one run.
pub(super) async fn all(harness: &Harness<'_>) -> Vec<Row> {
    let inspections = INSPECTIONS.iter();
    let program = inspections.fold(HARNESS.to_owned(), |program, one| {
        program + &call(one.control, one.program)
    });
    let limits = harness.limits();
    let view = harness.parts.gate.catalog.view();
    let (rootless, limited) = match &view.engine {
        EngineView::Up(engine) => (engine.rootless, engine.capabilities.limits.join(" ")),
        EngineView::Down(_) => (false, String::new()),
    };
    let environment = [
        ("ROOTLESS", u8::from(rootless).to_string()),
        ("LIMITED", limited),
        ("MEMORY", harness.memory().to_string()),
        ("PIDS", limits.pids.to_string()),
        (
            "NANO_CPUS",
            limits.nano_cpus.unwrap_or_default().to_string(),
        ),
        ("FILE_SIZE", limits.file_size.to_string()),
        ("MUST_NOT_REACH", must_not_reach(harness).await),
    ];
    let attempt = Attempt {
        program: &program,
        environment: &environment,
        seconds: SECONDS,
        ..Attempt::default()
    };
    let mut ended = harness.run_alone(attempt.clone()).await;
    // An engine under load may fail once; looking around does no harm, so it can be repeated.
    for _ in 1..TRIES {
        if !is_lost(&ended) || harness.parts.pool.uncut().is_some() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        ended = harness.run_alone(attempt.clone()).await;
    }
    let open = why_open(harness, &ended).await;
    let rows = INSPECTIONS.iter().map(|one| match &open {
        Some(why) if one.control == Control::NetworkOff => {
            Row::new(one.control, harness.way, Verdict::Fail(why.clone()))
        }
        _ => row(one.control, harness.way, &ended),
    });
    rows.collect()
}

/// Why the network is open, where that needs no program to be seen: sandboxes that there are rely on rules that are lost,
/// or one for the program was not used for this reason.
async fn why_open(harness: &Harness<'_>, ended: &Result<Ended, Verdict>) -> Option<String> {
    let pool = &harness.parts.pool;
    if pool.relies_on_rules()
        && let Ok(NetworkRules::Missing(reason)) = harness.parts.launcher.closing_rules().await
    {
        return Some(format!(
            "nothing is to close the network of sandboxes: {reason}"
        ));
    }
    let uncut = pool.uncut().filter(|_| is_lost(ended))?;
    Some(format!("a sandbox was not used: {uncut}"))
}

/// Whether there was no sandbox for it.
fn is_lost(ended: &Result<Ended, Verdict>) -> bool {
    ended.as_ref().is_ok_and(|ended| !ended.was_run())
}

/// What a program must not reach that sees a network, where the engine leaves it one for its rules to close.
async fn must_not_reach(harness: &Harness<'_>) -> String {
    let view = harness.parts.gate.catalog.view();
    if view.cuts_network() {
        return String::new();
    }
    let addresses = harness.parts.launcher.must_not_reach().await;
    let addresses = addresses.unwrap_or_default();
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    addresses.join(" ")
}

fn row(control: Control, way: Warmth, ended: &Result<Ended, Verdict>) -> Row {
    match ended {
        Ok(ended) if !ended.was_let_run() => Row::untried(control, way, &ended.ending()),
        Ok(ended) => Row {
            notes: report(control, ended).map_or_else(Vec::new, |report| report.notes),
            ..Row::new(control, way, judge(control, ended))
        },
        Err(verdict) => Row::new(control, way, verdict.clone()),
    }
}

/// A program that carries out one inspection.
pub(super) fn single(control: Control, program: &str) -> String {
    format!("{HARNESS}{}", call(control, program))
}

/// JSON strings are strings of Python too.
fn call(control: Control, program: &str) -> String {
    format!("inspect({}, {})\n", json!(control.name()), json!(program))
}

fn report(control: Control, ended: &Ended) -> Option<Findings> {
    let lines = ended.outcome.stdout.lines();
    let mut reports = lines.filter_map(|line| serde_json::from_str::<Findings>(line).ok());
    reports.find(|report| report.control == control.name())
}

/// Judges one inspection by what the run printed. One that did not report did not hold.
pub(super) fn judge(control: Control, ended: &Ended) -> Verdict {
    let Some(report) = report(control, ended) else {
        let cause = match ended.outcome.status {
            RunStatus::Timeout => "is this machine very busy, or emulated?",
            _ => "is the python runner Python 3?",
        };
        let ending = ended.ending();
        return Verdict::Fail(format!("the inspection did not report ({cause}): {ending}"));
    };
    if let Some(broke) = report.broke {
        return Verdict::Fail(format!("the inspection broke off: {broke}"));
    }
    if report.tried == 0 {
        return Verdict::Fail("the inspection tried nothing".to_owned());
    }
    if report.found.is_empty() {
        return Verdict::Pass(format!("{} tries, nothing found", report.tried));
    }
    let mut found = report.found;
    let more = found.split_off(found.len().min(SHOWN)).len();
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    Verdict::Fail(found.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::harness::ended;
    use super::*;

    /// All inspections in a container of the engine's defaults: root, no profile, nothing masked, its socket mounted.
    const WEAK: &str = include_str!("recorded/weak.jsonl");

    fn found(control: Control, stdout: &str) -> Result<String, String> {
        match judge(control, &ended(RunStatus::Ok, stdout)) {
            Verdict::Pass(found) => Ok(found),
            Verdict::Fail(found) => Err(found),
            Verdict::Skipped(_) => unreachable!("it was tried"),
        }
    }

    #[test]
    fn every_inspection_fails_in_a_weak_container() {
        for inspection in INSPECTIONS {
            let verdict = found(inspection.control, WEAK);
            assert!(verdict.is_err(), "{}: {verdict:?}", inspection.control);
        }
        insta::assert_snapshot!(found(Control::Identity, WEAK).unwrap_err(), @"CapPrm is 00000000a80425fb, CapEff is 00000000a80425fb, CapBnd is 00000000a80425fb, may gain privileges, is root, is in group 0, became root, chose its groups, and 4 more");
    }

    #[test]
    fn one_that_found_nothing_holds() {
        let line = r#"{"control": "identity", "tried": 14, "found": []}"#;
        assert_eq!(
            found(Control::Identity, line).unwrap(),
            "14 tries, nothing found"
        );
        let line = r#"{"control": "identity", "tried": 14, "found": ["CapEff is ffff"]}"#;
        assert_eq!(
            found(Control::Identity, line).unwrap_err(),
            "CapEff is ffff"
        );
    }

    #[test]
    fn what_kept_it_from_running_is_not_the_sandboxs_fault() {
        for (status, is_fault) in [
            (RunStatus::EngineLost, false),
            (RunStatus::DiskLimit, false),
            (RunStatus::Error, true),
            (RunStatus::Timeout, true),
        ] {
            let row = row(Control::Identity, Warmth::Cold, &Ok(ended(status, "")));
            assert!(matches!(row.verdict, Verdict::Fail(_)), "{status:?}");
            let advice = row.advice.unwrap();
            assert_eq!(
                advice == Control::Identity.about().advice,
                is_fault,
                "{advice}"
            );
        }
    }

    #[test]
    fn one_that_was_too_slow_is_not_blamed_on_the_runner() {
        let verdict = judge(Control::Identity, &ended(RunStatus::Timeout, ""));
        let expected =
            "the inspection did not report (is this machine very busy, or emulated?): timeout";
        assert!(verdict.found().starts_with(expected), "{verdict:?}");
    }

    #[test]
    fn one_that_did_not_get_to_its_end_does_not_hold() {
        for (stdout, why) in [
            ("", "did not report (is the python runner Python 3?): ok"),
            ("SAFE\n", "did not report"),
            (
                r#"{"control": "syscalls", "tried": 9, "found": []}"#,
                "did not report",
            ),
            (
                r#"{"control": "identity", "tried": 0, "found": []}"#,
                "tried nothing",
            ),
            (
                r#"{"control": "identity", "broke": "OSError()", "tried": 1, "found": []}"#,
                "broke off: OSError()",
            ),
        ] {
            let verdict = found(Control::Identity, stdout).unwrap_err();
            assert!(verdict.contains(why), "{stdout}: {verdict}");
        }
    }
}
