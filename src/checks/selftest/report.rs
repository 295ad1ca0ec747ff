//! The selftest's result: a table for people, JSON for machines, and an exit code.

use std::fmt;

use serde::Serialize;

use super::{Row, Verdict};

/// Most characters of a finding that a table has room for.
const ROOM: usize = 500;

/// The header of the table.
pub fn header() -> String {
    format!(
        "{:<15} {:<5} {:<8} TRIED, FOUND, → WHAT TO DO",
        "CONTROL", "WAY", "VERDICT"
    )
}

/// Everything that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The engine, by name and version.
    pub engine: String,
    /// The runtime that was asked for; null for the engine's own.
    pub runtime: Option<String>,
    /// Rows that passed.
    pub passed: usize,
    /// Rows that failed.
    pub failed: usize,
    /// Rows that could not be tried.
    pub skipped: usize,
    /// One for each control and way.
    pub controls: Vec<Row>,
}

impl Report {
    /// Counts the rows.
    pub fn new(engine: String, runtime: Option<String>, controls: Vec<Row>) -> Self {
        let count =
            |which: fn(&Verdict) -> bool| controls.iter().filter(|row| which(&row.verdict)).count();
        Self {
            engine,
            runtime,
            passed: count(|verdict| matches!(verdict, Verdict::Pass(_))),
            failed: count(|verdict| matches!(verdict, Verdict::Fail(_))),
            skipped: count(|verdict| matches!(verdict, Verdict::Skipped(_))),
            controls,
        }
    }

    /// 0 when every control held, 1 when one failed, 75 when none failed and some could not be tried.
    pub fn exit_code(&self) -> u8 {
        match (self.failed, self.skipped) {
            (0, 0) => 0,
            (0, _) => 75,
            _ => 1,
        }
    }

    /// One JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The numbers at the end of the table.
    pub fn summary(&self) -> String {
        let runtime = self.runtime.as_deref().unwrap_or("its own runtime");
        format!(
            "{} passed, {} failed, {} skipped on {} with {runtime}",
            self.passed, self.failed, self.skipped, self.engine
        )
    }
}

/// One line of the table, and another with what to do when it did not pass.
impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:<15} {:<5} {:<8} {}\n{:30} {}",
            self.control.name(),
            self.way.into_str(),
            self.verdict.into_str(),
            self.tried,
            "",
            shortened(&self.found)
        )?;
        for note in &self.notes {
            write!(formatter, "\n{:30} note: {note}", "")?;
        }
        match self.advice {
            Some(advice) => write!(formatter, "\n{:30} → {advice}", ""),
            None => Ok(()),
        }
    }
}

fn shortened(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= ROOM {
        return line;
    }
    line.chars().take(ROOM).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Warmth;
    use super::*;
    use crate::control::Control;

    fn report(verdicts: &[Verdict]) -> Report {
        let rows = verdicts.iter().cloned();
        let rows = rows.map(|verdict| Row::new(Control::Identity, Warmth::Cold, verdict));
        Report::new("Docker 1".to_owned(), None, rows.collect())
    }

    #[test]
    fn the_exit_code_is_that_of_the_worst_row() {
        let (pass, fail, skipped) = (
            Verdict::Pass(String::new()),
            Verdict::Fail(String::new()),
            Verdict::Skipped(String::new()),
        );
        assert_eq!(report(&[pass.clone(), pass.clone()]).exit_code(), 0);
        assert_eq!(report(&[pass.clone(), skipped.clone()]).exit_code(), 75);
        assert_eq!(report(&[pass, skipped, fail]).exit_code(), 1);
    }

    #[test]
    fn a_row_says_what_to_do_when_it_did_not_pass() {
        let failed = Verdict::Fail("CapEff is ffff".to_owned());
        insta::assert_snapshot!(Row::new(Control::Identity, Warmth::Cold, failed), @"
        identity        cold  FAIL     be root, hold a capability, gain privileges, by setuid programs too
                                       CapEff is ffff
                                       → the engine must drop all capabilities and apply no-new-privileges: update it, or look for a policy that changes containers
        ");
    }
}
