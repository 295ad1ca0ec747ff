//! What is asked for, as callers write it: a name, extras and versions, and nothing that leads anywhere else. Pure.
//!
//! Python's requirements follow PEP 508, with versions by PEP 440; TypeScript's follow npm's names and ranges.

use std::fmt;
use std::str::FromStr as _;

use nodejs_semver::Range;
use pep440_rs::VersionSpecifiers;
use thiserror::Error;

/// Longest requirement in bytes.
const MAX_BYTES: usize = 512;
/// Most extras that one package may accumulate over all calls.
const MAX_EXTRAS: usize = 200;
/// Longest name of an npm package in bytes.
const MAX_NPM_NAME: usize = 214;
/// What the version specifiers of Python begin with.
const OPERATORS: [char; 5] = ['<', '>', '=', '!', '~'];

/// Whose rules names and versions follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ecosystem {
    /// Python packages, by PEP 508.
    Python,
    /// npm packages.
    Npm,
}

/// A package as a caller asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The name, with extras where there are any; or a whole requirement such as `six==1.17.0`.
    pub name: String,
    /// A version or a range of versions.
    pub version: Option<String>,
}

impl Asked {
    /// As it was asked for.
    pub(super) fn shown(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.name),
            None => self.name.clone(),
        }
    }
}

/// A requirement that names a package of an index and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The name by which packages are compared.
    pub name: Name,
    /// The name as its package client knows it, with its extras.
    shown: String,
    /// Which versions are acceptable, as the package client reads it; empty for any.
    pub versions: String,
    ecosystem: Ecosystem,
}

/// A normalised name: two names are equal exactly if they name the same package.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Ecosystem, String);

/// Why something is not a requirement. Messages say what to do.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RequirementError {
    /// Too long to be one.
    #[error("{0:?}… is longer than {MAX_BYTES} bytes: give a name and a version")]
    TooLong(String),
    /// A link to something, or a path.
    #[error(
        "{0:?} is a URL or a path: packages come from the configured index only, so give a name, and a version if need be"
    )]
    Url(String),
    /// It has conditions.
    #[error("{0:?} has an environment marker: leave out `;` and what follows")]
    Marker(String),
    /// Neither a name nor a requirement.
    #[error(
        "{0:?} is not a package requirement ({1}): give a name such as {2:?}, or name and version such as {3:?}"
    )]
    Malformed(String, String, &'static str, &'static str),
}

impl Name {
    /// The normal form of PEP 503 for Python. For npm, only case is ignored.
    pub fn new(ecosystem: Ecosystem, name: &str) -> Self {
        let name = name.trim();
        let normal = match ecosystem {
            Ecosystem::Python => normal(name),
            Ecosystem::Npm => name.to_lowercase(),
        };
        Self(ecosystem, normal)
    }

    /// By whose rules it is normal.
    pub const fn ecosystem(&self) -> Ecosystem {
        self.0
    }

    /// The normal form.
    pub fn as_str(&self) -> &str {
        &self.1
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.1)
    }
}

fn normal(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            character => normal.extend(character.to_lowercase()),
        }
    }
    normal
}

/// In the form that its package client and [`Requirement::parse`] read.
impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)?;
        if self.ecosystem == Ecosystem::Npm && !self.versions.is_empty() {
            formatter.write_str("@")?;
        }
        formatter.write_str(&self.versions)
    }
}

impl Requirement {
    /// Reads a package that a caller asks for.
    ///
    /// # Errors
    /// It leads anywhere but to an index, or is not a requirement.
    pub fn parse(ecosystem: Ecosystem, asked: &Asked) -> Result<Self, RequirementError> {
        let name = asked.name.trim();
        let version = asked.version.as_deref().map_or("", str::trim);
        if name.len() + version.len() > MAX_BYTES {
            return Err(RequirementError::TooLong(name.chars().take(64).collect()));
        }
        Self::read(ecosystem, name, version)
    }

    /// The same, without the limit on length.
    pub(super) fn read(
        ecosystem: Ecosystem,
        name: &str,
        version: &str,
    ) -> Result<Self, RequirementError> {
        match ecosystem {
            Ecosystem::Python => python(name, version),
            Ecosystem::Npm => npm(name, version),
        }
    }

    /// The same package in this version and no other.
    #[must_use]
    pub fn pinned(&self, version: &str) -> Self {
        let versions = match self.ecosystem {
            Ecosystem::Python => format!("=={version}"),
            Ecosystem::Npm => version.to_owned(),
        };
        Self {
            versions,
            ..self.clone()
        }
    }

    /// The same package in any version.
    #[must_use]
    pub fn in_any_version(&self) -> Self {
        Self {
            versions: String::new(),
            ..self.clone()
        }
    }

    /// Whether a package of this name is what is asked for.
    pub fn is_for(&self, name: &str) -> bool {
        Name::new(self.ecosystem, name) == self.name
    }

    /// Adds the extras of an earlier request for the same package: as with pip, extras are not taken away, unless there
    /// are too many.
    pub fn add_extras(&mut self, earlier: &Self) {
        let extras = |one: &Self| match split_extras(&one.shown) {
            Some((_, extras)) if one.ecosystem == Ecosystem::Python => extras,
            _ => Vec::new(),
        };
        let mut all = extras(self);
        let room = MAX_EXTRAS.saturating_sub(all.len());
        let more = extras(earlier).into_iter();
        let more: Vec<_> = more.filter(|extra| !all.contains(extra)).collect();
        all.extend(more.into_iter().take(room));
        all.sort();
        all.dedup();
        if !all.is_empty() {
            self.shown = format!("{}[{}]", self.name, all.join(","));
        }
    }

    /// The name as its package client knows it, without extras.
    pub fn plain_name(&self) -> &str {
        self.shown.split('[').next().unwrap_or(&self.shown)
    }
}

fn python(name: &str, version: &str) -> Result<Requirement, RequirementError> {
    let versions = match version {
        "" | "latest" | "*" => String::new(),
        range if range.starts_with(OPERATORS) => range.to_owned(),
        exact => format!("=={exact}"),
    };
    let text = format!("{name}{versions}");
    let malformed = |why: &dyn fmt::Display| {
        // The parser's own message has several lines, of which the first says what is wrong.
        let why = why.to_string();
        let why = why.lines().next().unwrap_or_default();
        let why = why.trim_end_matches(':').to_owned();
        RequirementError::Malformed(text.clone(), why, "six", "six==1.17.0")
    };
    if text.contains("://") || text.contains('@') || text.starts_with(['.', '/', '~']) {
        return Err(RequirementError::Url(text));
    }
    if text.contains(';') {
        return Err(RequirementError::Marker(text));
    }
    let end = text.find(OPERATORS).unwrap_or(text.len());
    let (head, specifiers) = text.split_at(end);
    let (name, extras) = split_extras(head.trim()).ok_or_else(|| {
        malformed(&"names have letters, digits, -, _ and . only, and begin and end with one of the first two")
    })?;
    let specifiers = match specifiers {
        "" => Vec::new(),
        text => {
            let parsed = VersionSpecifiers::from_str(text).map_err(|error| malformed(&error))?;
            parsed.iter().map(ToString::to_string).collect()
        }
    };
    let shown = match extras.as_slice() {
        [] => name.to_string(),
        extras => format!("{name}[{}]", extras.join(",")),
    };
    Ok(Requirement {
        name,
        shown,
        versions: specifiers.join(","),
        ecosystem: Ecosystem::Python,
    })
}

/// Name and extras of `name[extra,…]`, all in their normal form.
fn split_extras(head: &str) -> Option<(Name, Vec<String>)> {
    let (name, extras) = match head.split_once('[') {
        None => (head, ""),
        Some((name, extras)) => (name.trim_end(), extras.strip_suffix(']')?),
    };
    let extras = extras.split(',').map(str::trim);
    let extras: Vec<_> = extras.filter(|extra| !extra.is_empty()).collect();
    let all_are_names = std::iter::once(&name)
        .chain(&extras)
        .all(|&name| is_python_name(name));
    let normal = |extra: &&str| normal(extra);
    all_are_names.then(|| {
        let name = Name::new(Ecosystem::Python, name);
        (name, extras.iter().map(normal).collect())
    })
}

/// The identifier of PEP 508.
fn is_python_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter()
        .all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|&byte| is_inner(byte))
}

fn npm(name: &str, version: &str) -> Result<Requirement, RequirementError> {
    let malformed = |why: &str| {
        let text = format!("{name} {version}").trim_end().to_owned();
        RequirementError::Malformed(text, why.to_owned(), "nanoid", "nanoid@5.1.6")
    };
    if name.contains("://") || name.contains(':') || name.starts_with(['.', '/', '~']) {
        return Err(RequirementError::Url(name.to_owned()));
    }
    let (name, given) = split_npm(name);
    if !given.is_empty() && !version.is_empty() {
        return Err(malformed("it has two versions"));
    }
    let versions = [given, version].concat();
    let versions = match versions.strip_prefix("==").unwrap_or(&versions).trim() {
        "latest" | "*" => "",
        versions => versions,
    };
    check_npm_name(name).map_err(malformed)?;
    if versions.contains([':', '/']) {
        return Err(RequirementError::Url(format!("{name}@{versions}")));
    }
    if !versions.is_empty() && Range::parse(versions).is_err() {
        return Err(malformed("the version is no range of semantic versions"));
    }
    Ok(Requirement {
        name: Name::new(Ecosystem::Npm, name),
        shown: name.to_owned(),
        versions: versions.to_owned(),
        ecosystem: Ecosystem::Npm,
    })
}

/// Name and version of `name@version`, of `@scope/name@version` and of `name==version`.
fn split_npm(text: &str) -> (&str, &str) {
    if let Some((name, version)) = text.split_once("==") {
        return (name.trim_end(), version);
    }
    match text.get(1..).and_then(|rest| rest.find('@')) {
        Some(at) => (&text[..=at], &text[at + 2..]),
        None => (text, ""),
    }
}

/// The rules of npm for names of new packages.
fn check_npm_name(name: &str) -> Result<(), &'static str> {
    let parts: Vec<_> = match name.strip_prefix('@') {
        Some(scoped) => scoped.splitn(2, '/').collect(),
        None => vec![name],
    };
    if name.starts_with('@') && parts.len() != 2 {
        return Err("a scope is followed by / and a name");
    }
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &&str| {
        !part.is_empty()
            && !part.starts_with(['.', '_', '-'])
            && part
                .bytes()
                .all(|byte| is_letter(byte) || b"-._~".contains(&byte))
    };
    if !parts.iter().all(is_part) {
        return Err("names have small letters, digits, -, . and _ only");
    }
    if name.len() > MAX_NPM_NAME || ["node_modules", "favicon.ico"].contains(&name) {
        return Err("it cannot be the name of a package");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
