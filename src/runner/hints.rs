//! What to do about what programs print when they fail: a table that belongs to an image, in its label `sandbox.hints`.
//!
//! What a program prints comes into a sentence for a model only where the table has a place for it, and only if it can
//! be a name: see [`is_name`].

mod remedy;

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::{Captures, Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use serde::Deserialize;
use thiserror::Error;

pub use self::remedy::{Advice, Remedy, RemedyKind};

/// The longest table, as its image has it: 64 KiB.
const MAX_BYTES: usize = 64 << 10;
/// The most entries of a table.
const MAX_ENTRIES: usize = 200;
/// The longest sentence before anything is put into it, in bytes.
const MAX_SENTENCE: usize = 600;
/// How much memory one expression may take, and how much all of them together.
const MAX_EXPRESSION: usize = 256 << 10;
const MAX_EXPRESSIONS: usize = 4 << 20;
/// The longest name that is taken out of what a program printed.
const MAX_NAME: usize = 64;
/// What names may have in them beside letters and digits: that of packages with scope, extras and version.
const IN_NAMES: &str = "_-.@/[],=<>~!+";
/// The group that is looked up in the values of its entry.
const LOOKED_UP: &str = "name";
/// The place for what was found there.
const FOUND: &str = "of";

/// The hints of a runner, in the order in which they are tried on a line.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// The label.
    text: String,
    table: Arc<Table>,
}

impl PartialEq for Hints {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Hints {}

/// What a run was, as far as hints depend on it.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is what tables ask for")]
pub struct Circumstances {
    /// Whether the program failed.
    pub failed: bool,
    /// Whether it had the network.
    pub network: bool,
    /// Whether it ran in a kernel.
    pub stateful: bool,
    /// Whether it was given something to read.
    pub stdin: bool,
}

/// Why a label is no table.
#[derive(Debug, Error)]
pub enum HintsError {
    /// It is longer than [`MAX_BYTES`].
    #[error("it has {0} bytes, and at most {MAX_BYTES} are read")]
    TooLong(usize),
    /// It is not a list of entries.
    #[error("it is not a JSON array of entries: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It has more than [`MAX_ENTRIES`].
    #[error("it has {0} entries, and at most {MAX_ENTRIES} are read")]
    TooMany(usize),
    /// An entry cannot be used.
    #[error("entry {0}: {1}")]
    Entry(usize, EntryError),
    /// All expressions together are too large.
    #[error("its expressions are too large together")]
    TooLarge,
}

/// What is wrong with an entry.
#[derive(Debug, Error)]
pub enum EntryError {
    /// Not an expression, or one that takes too much memory.
    #[error("line: {0}")]
    Expression(String),
    /// The sentence is longer than [`MAX_SENTENCE`].
    #[error("say has {0} bytes, and may have {MAX_SENTENCE}")]
    Sentence(usize),
    /// A place in the sentence that nothing belongs to.
    #[error("there is the place {{{0}}}, which is neither a group of line nor {{of}} with values")]
    Place(String),
    /// A brace that begins or ends no place.
    #[error("there is a brace that is no place")]
    Brace,
    /// There are values and nothing that is looked up in them.
    #[error("of has values, and line has no group called name")]
    Values,
    /// A package without the remedy for it, or the other way round.
    #[error("package goes with the remedy install, and that with it")]
    Package,
}

#[derive(Debug, Default)]
struct Table {
    /// All expressions at once, to find out which lines are worth a closer look.
    lines: RegexSet,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    line: Regex,
    sentence: Template,
    package: Option<Template>,
    row: Row,
}

/// An entry as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// What a line of standard error is like.
    line: String,
    /// The hint.
    say: String,
    /// Values by what the group `name` may be: for anything else, the entry does not apply.
    #[serde(default)]
    of: BTreeMap<String, String>,
    /// Whether it applies to programs that did not fail, too.
    #[serde(default)]
    always: bool,
    network: Option<bool>,
    stateful: Option<bool>,
    stdin: Option<bool>,
    /// What helps, if it is not another program.
    remedy: Option<RemedyKind>,
    /// What to install.
    package: Option<String>,
}

/// A text with places in it.
#[derive(Debug)]
struct Template(Vec<Part>);

/// A part of a template.
#[derive(Debug)]
enum Part {
    Text(String),
    /// What a group has matched.
    Group(String),
    /// The value of what the group `name` has matched.
    Value,
}

impl Hints {
    /// Reads a label. An empty one is an empty table.
    ///
    /// # Errors
    /// What in it does not conform to `runners/PROTOCOL.md`.
    pub fn of_label(text: &str) -> Result<Self, HintsError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        if text.len() > MAX_BYTES {
            return Err(HintsError::TooLong(text.len()));
        }
        let rows: Vec<Row> = serde_json::from_str(text)?;
        if rows.len() > MAX_ENTRIES {
            return Err(HintsError::TooMany(rows.len()));
        }
        let lines = RegexSetBuilder::new(rows.iter().map(|row| &row.line))
            .size_limit(MAX_EXPRESSIONS)
            .build();
        let entries = rows.into_iter().enumerate().map(|(index, row)| {
            Entry::of(row).map_err(|error| HintsError::Entry(index + 1, error))
        });
        let entries = entries.collect::<Result<_, _>>()?;
        let lines = lines.map_err(|_| HintsError::TooLarge)?;
        Ok(Self {
            text: text.to_owned(),
            table: Arc::new(Table { lines, entries }),
        })
    }

    /// The advice about the last line that there is one for.
    pub fn about(&self, run: Circumstances, stderr: &str) -> Option<Advice> {
        let Table { lines, entries } = &*self.table;
        if entries.is_empty() {
            return None;
        }
        stderr.lines().rev().find_map(|line| {
            let mut like = lines.matches(line).into_iter();
            like.find_map(|index| entries[index].about(run, line))
        })
    }
}

impl Entry {
    fn of(row: Row) -> Result<Self, EntryError> {
        let line = RegexBuilder::new(&row.line)
            .size_limit(MAX_EXPRESSION)
            .build();
        let line = line.map_err(|error| {
            // The rest of it shows the expression.
            let said = error.to_string();
            EntryError::Expression(said.lines().last().unwrap_or_default().to_owned())
        })?;
        if row.say.len() > MAX_SENTENCE {
            return Err(EntryError::Sentence(row.say.len()));
        }
        let has_group = |name: &str| line.capture_names().flatten().any(|group| group == name);
        if !row.of.is_empty() && !has_group(LOOKED_UP) {
            return Err(EntryError::Values);
        }
        let template = |text: &str| {
            let template = Template::parse(text)?;
            for part in &template.0 {
                match part {
                    Part::Group(name) if !has_group(name) => {
                        return Err(EntryError::Place(name.clone()));
                    }
                    Part::Value if row.of.is_empty() => {
                        return Err(EntryError::Place(FOUND.to_owned()));
                    }
                    _ => {}
                }
            }
            Ok(template)
        };
        let sentence = template(&row.say)?;
        let package = row.package.as_deref().map(template).transpose()?;
        if package.is_some() != (row.remedy == Some(RemedyKind::Install)) {
            return Err(EntryError::Package);
        }
        Ok(Self {
            line,
            sentence,
            package,
            row,
        })
    }

    /// The advice about a line of a run, if it is for such a run and everything that belongs into it can be a name.
    fn about(&self, run: Circumstances, line: &str) -> Option<Advice> {
        let Row {
            of,
            always,
            network,
            stateful,
            stdin,
            remedy,
            ..
        } = &self.row;
        let is = |wanted: &Option<bool>, it: bool| wanted.is_none_or(|wanted| wanted == it);
        let applies = (run.failed || *always)
            && is(network, run.network)
            && is(stateful, run.stateful)
            && is(stdin, run.stdin);
        if !applies {
            return None;
        }
        let groups = self.line.captures(line)?;
        let value = if of.is_empty() {
            ""
        } else {
            of.get(group(&groups, LOOKED_UP)?)?
        };
        let sentence = self.sentence.fill(&groups, value)?;
        let package = match &self.package {
            Some(package) => Some(package.fill(&groups, value)?),
            None => None,
        };
        let kind = remedy.unwrap_or(RemedyKind::Program);
        let remedy = Remedy { kind, package };
        Some(Advice { sentence, remedy })
    }
}

impl Template {
    /// Takes a text apart at its places, which are in braces.
    fn parse(text: &str) -> Result<Self, EntryError> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((text, after)) = rest.split_once('{') {
            let (place, behind) = after.split_once('}').ok_or(EntryError::Brace)?;
            parts.push(Part::Text(text.to_owned()));
            parts.push(match place {
                FOUND => Part::Value,
                place => Part::Group(place.to_owned()),
            });
            rest = behind;
        }
        parts.push(Part::Text(rest.to_owned()));
        let is_stray = |part: &Part| matches!(part, Part::Text(text) if text.contains('}'));
        if parts.iter().any(is_stray) {
            return Err(EntryError::Brace);
        }
        Ok(Self(parts))
    }

    /// The text with what belongs into its places, if that can be names.
    fn fill(&self, groups: &Captures<'_>, value: &str) -> Option<String> {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Group(name) => group(groups, name),
            Part::Value => Some(value),
        });
        parts.collect()
    }
}

/// What a group has matched, if it can be a name. One that is not part of the line has matched nothing.
fn group<'line>(groups: &Captures<'line>, name: &str) -> Option<&'line str> {
    let text = groups.name(name).map_or("", |group| group.as_str());
    is_name(text).then_some(text)
}

/// Whether it has no space and little else than letters and digits, and so nothing that a model could read as a
/// sentence.
fn is_name(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || IN_NAMES.contains(letter);
    text.len() <= MAX_NAME && text.chars().all(fits)
}

#[cfg(test)]
mod tests;
