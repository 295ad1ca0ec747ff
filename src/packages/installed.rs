//! The result of an install, as it is reported. Pure.

use std::time::Duration;

use super::client::{Aside, Clash, Fetched, Found};
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

/// What an install changes.
pub(super) struct Change<'a> {
    pub(super) language: &'a str,
    /// What is asked for now.
    pub(super) asked: &'a [Requirement],
    /// What was to be removed.
    pub(super) removed: &'a [Name],
    /// What the operator's lists forbid by now.
    pub(super) refused: &'a [Requirement],
    pub(super) before: &'a Note,
    pub(super) fetched: &'a Fetched,
}

impl Change<'_> {
    /// What to report.
    pub(super) fn summary(&self) -> Installed {
        let fetched = self.fetched;
        let packages = fetched.packages.iter();
        let came = packages.filter(|found| {
            self.position_asked(found).is_some() || !self.before.has(self.language, found)
        });
        let provided = fetched.provided.iter();
        let mut found: Vec<_> = came
            .chain(provided.filter(|found| self.position_asked(found).is_some()))
            .collect();
        found.sort_by_key(|found| self.position_asked(found).unwrap_or(usize::MAX));
        let (provided, new): (Vec<_>, Vec<_>) = found
            .iter()
            .partition(|found| fetched.provided.contains(found));
        let mut sentences = Vec::new();
        if !new.is_empty() {
            sentences.push(format!("Installed {}", named(&new)));
        }
        if !provided.is_empty() {
            sentences.push(format!("{} is part of the runner", named(&provided)));
        }
        sentences.extend(self.removals());
        sentences.extend(self.clashes());
        sentences.extend(self.about_the_runner(&new));
        Installed {
            installed: found
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

    /// Which of those that are asked for a package is.
    fn position_asked(&self, found: &Found) -> Option<usize> {
        self.asked.iter().position(|one| one.is_for(&found.name))
    }

    /// What is no longer there, and what still is.
    fn removals(&self) -> Vec<String> {
        let is_there = |name: &&Name| {
            let mut packages = self.fetched.packages.iter();
            packages.any(|found| Name::new(name.ecosystem(), &found.name) == **name)
        };
        let (needed, gone): (Vec<_>, Vec<_>) = self.removed.iter().partition(is_there);
        let joined = |names: &[&Name]| {
            let names = names.iter().map(|name| name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let mut sentences = Vec::new();
        if !gone.is_empty() {
            sentences.push(format!("Removed {}", joined(&gone)));
        }
        if !needed.is_empty() {
            let names = joined(&needed);
            sentences.push(format!(
                "{names} is still there, since other packages need it"
            ));
        }
        let refused = self.refused.iter().map(|one| &one.name);
        let there = |name: &&Name| {
            self.before
                .version_of(self.language, name.as_str())
                .is_some()
        };
        let refused = joined(&refused.filter(there).collect::<Vec<_>>());
        if !refused.is_empty() {
            sentences.push(format!(
                "{refused} is no longer there: the operator's lists forbid it by now (ALLOWED_PACKAGES, BLOCKED_PACKAGES)"
            ));
        }
        sentences
    }

    /// Which packages could not be there together.
    fn clashes(&self) -> impl Iterator<Item = String> {
        let sentence = |what: &'static str| {
            move |clash: &Clash| {
                let Clash {
                    name,
                    other,
                    module,
                } = clash;
                format!("{name} was {what}: it has the same files as {other} ({module})")
            }
        };
        let removed = self.fetched.gave_way.iter().map(sentence("removed"));
        let left_out = self.fetched.left_out.iter().map(sentence("left out"));
        removed.chain(left_out)
    }

    /// What of the runner is there in another version or not at all, where nobody asked for that.
    fn about_the_runner(&self, new: &[&&Found]) -> Vec<String> {
        let mut sentences = Vec::new();
        for Found { name, version } in &self.fetched.replaced {
            let found = new.iter().find(|found| found.name == *name);
            if let Some(found) = found.filter(|found| self.position_asked(found).is_none()) {
                let now = &found.version;
                sentences.push(format!(
                    "{name} {now} takes the place of the runner's {version}"
                ));
            }
        }
        for found in &self.fetched.provided {
            let version = self.before.version_of(self.language, &found.name);
            if let Some(version) = version.filter(|_| self.position_asked(found).is_none()) {
                let Found { name, version: now } = found;
                sentences.push(format!(
                    "{name} {now} is part of the runner by now, in place of {version}"
                ));
            }
        }
        let aside = self.fetched.aside.iter().map(|one| {
            let Aside {
                name,
                version,
                needs,
            } = one;
            format!("{name} {version} (needs {needs})")
        });
        let aside = aside.collect::<Vec<_>>().join(", ");
        if !aside.is_empty() {
            sentences.push(format!(
                "Of the runner, {aside} cannot be imported beside that: if need be, install other versions by name"
            ));
        }
        sentences
    }
}

fn named(list: &[&&Found]) -> String {
    let names = list
        .iter()
        .map(|found| format!("{} {}", found.name, found.version));
    names.collect::<Vec<_>>().join(", ")
}
