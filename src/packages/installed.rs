//! The result of an install, as it is reported. Pure.

use std::time::Duration;

use super::client::{Fetched, Found};
use super::note::Note;
use super::requirement::{Ecosystem, Name, Requirement};

/// A package that programs can import now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The result of an install.
#[derive(Clone, Debug)]
pub struct Installed {
    /// What was asked for, in that order, and then what came along. What had been there already is included only if it
    /// was asked for.
    pub installed: Vec<InstalledPackage>,
    /// What happened, in a sentence.
    pub message: String,
    /// How long it took.
    pub duration: Duration,
}

impl Installed {
    /// The version of a Python package, whichever way its name is written.
    pub fn version_of(&self, name: &str) -> Option<&str> {
        let normal = |name: &str| Name::new(Ecosystem::Python, name);
        let mut installed = self.installed.iter();
        let found = installed.find(|one| normal(&one.name) == normal(name));
        found.map(|one| one.version.as_str())
    }
}

/// What to report of an install.
pub(super) fn summary(
    language: &str,
    asked: &[Requirement],
    refused: &[Requirement],
    before: &Note,
    fetched: &Fetched,
) -> Installed {
    let is_asked = |found: &Found| asked.iter().position(|one| one.is_for(&found.name));
    let packages = fetched.packages.iter();
    let came = packages.filter(|found| is_asked(found).is_some() || !before.has(language, found));
    let provided = fetched.provided.iter();
    let mut told: Vec<_> = came
        .chain(provided.filter(|found| is_asked(found).is_some()))
        .collect();
    told.sort_by_key(|found| is_asked(found).unwrap_or(usize::MAX));
    let names = |list: &[&Found]| {
        let names = list
            .iter()
            .map(|found| format!("{} {}", found.name, found.version));
        names.collect::<Vec<_>>().join(", ")
    };
    let (provided, new): (Vec<_>, Vec<_>) = told
        .iter()
        .partition(|found| fetched.provided.contains(found));
    let mut sentences = Vec::new();
    if !new.is_empty() {
        sentences.push(format!("Installed {}", names(&new)));
    }
    if !provided.is_empty() {
        sentences.push(format!("{} is part of the runner", names(&provided)));
    }
    for found in &fetched.provided {
        let version = before.version_of(language, &found.name);
        if let Some(version) = version.filter(|_| is_asked(found).is_none()) {
            let Found { name, version: now } = found;
            sentences.push(format!(
                "{name} {now} is part of the runner by now, in place of {version}"
            ));
        }
    }
    let names = refused.iter().map(|one| one.name.as_str());
    let there = names.filter(|name| before.version_of(language, name).is_some());
    let names = there.collect::<Vec<_>>().join(", ");
    if !names.is_empty() {
        sentences.push(format!(
            "{names} is no longer there: the operator's lists forbid it by now (ALLOWED_PACKAGES, BLOCKED_PACKAGES)"
        ));
    }
    Installed {
        installed: told
            .iter()
            .map(|found| InstalledPackage {
                name: found.name.clone(),
                version: found.version.clone(),
            })
            .collect(),
        message: sentences.join(". "),
        duration: Duration::ZERO,
    }
}
