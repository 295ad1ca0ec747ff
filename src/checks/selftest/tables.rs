//! While one conversation takes what the kernel counts for a user, or for the host, another one must get what it needs.

use super::Verdict;
use super::harness::{Attempt, Ended, Harness};
use crate::run::outcome::RunStatus;

const TAKE: &str = include_str!("programs/take_tables.py");
const NEED: &str = include_str!("programs/need_tables.py");
const SECONDS: u64 = 50;

pub(super) async fn holds(harness: &Harness<'_>) -> Verdict {
    // With one user for all conversations, the rest of it is shared.
    let has_users = harness.test.engine.uids.is_some();
    let environment = [("ALL", u8::from(has_users).to_string())];
    let attempt = |program| Attempt {
        program,
        environment: &environment,
        seconds: SECONDS,
        ..Attempt::default()
    };
    match harness.run_beside(attempt(TAKE), attempt(NEED)).await {
        Ok((takes, needs)) => judge(&takes, &needs),
        Err(verdict) => verdict,
    }
}

fn judge(takes: &Ended, needs: &Ended) -> Verdict {
    if takes.outcome.status != RunStatus::Ok || takes.last_line() != "done" {
        return Verdict::Fail(format!("it could not be tried: {}", takes.ending()));
    }
    let lines = |ended: &Ended| -> Vec<String> {
        let lines = ended.outcome.stdout.lines();
        lines.map(str::to_owned).collect()
    };
    let (mut found, mut got) = (lines(takes), lines(needs));
    found.pop();
    if needs.outcome.status != RunStatus::Ok || got.pop().as_deref() != Some("well") {
        found.push(format!("the other one got: {}", needs.ending()));
    }
    found.extend(got);
    if found.is_empty() {
        return Verdict::Pass("the other one got what it needed".to_owned());
    }
    Verdict::Fail(found.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::harness::ended;
    use super::*;

    #[test]
    fn nothing_may_be_taken_or_lacking() {
        let judge = |took, status, got| {
            let verdict = judge(&ended(RunStatus::Ok, took), &ended(status, got));
            format!("{}: {}", verdict.into_str(), verdict.found())
        };
        insta::assert_snapshot!(judge("done", RunStatus::Ok, "well"), @"pass: the other one got what it needed");
        insta::assert_snapshot!(judge("took requests of io_setup\ndone", RunStatus::Ok, "lacks a terminal: no\nwell"), @"FAIL: took requests of io_setup, lacks a terminal: no");
        insta::assert_snapshot!(judge("done", RunStatus::EngineLost, ""), @"FAIL: the other one got: engine_lost");
        insta::assert_snapshot!(judge("", RunStatus::Ok, "well"), @"FAIL: it could not be tried: ok");
    }
}
