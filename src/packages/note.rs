//! What a conversation has asked for, as the server remembers it. Pure.
//!
//! Every install makes the whole tree anew, from this and from what is asked for now. So nothing has to be read from
//! where programs could have changed it, and what was asked for earlier keeps its version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::client::Found;
use super::requirement::{Ecosystem, Requirement};

/// What a conversation has, by language.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct Note(BTreeMap<String, Installs>);

/// What it has of one language.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Installs {
    /// What was asked for, each in the version that it got.
    asked: Vec<String>,
    /// All that is there, with what came along.
    there: Vec<Found>,
}

impl Note {
    /// Reads a note. One that is not valid, as after a crash while it was being written, counts as empty.
    pub(super) fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    pub(super) fn render(&self) -> String {
        // Names and versions always become JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What is asked for now, each with the extras of earlier requests, and then what was only asked for earlier.
    pub(super) fn with_earlier(
        &self,
        language: &str,
        ecosystem: Ecosystem,
        now: &[Requirement],
    ) -> Vec<Requirement> {
        let mut all = now.to_vec();
        let earlier = self.0.get(language).into_iter();
        for text in earlier.flat_map(|installs| &installs.asked) {
            // With all the extras ever asked for, it may be longer than a caller's requirement may be.
            let Ok(earlier) = Requirement::read(ecosystem, text, "") else {
                continue;
            };
            match all[..now.len()]
                .iter_mut()
                .find(|one| one.name == earlier.name)
            {
                Some(again) => again.add_extras(&earlier),
                None => all.push(earlier),
            }
        }
        all
    }

    /// Whether nothing is there.
    pub(super) fn is_empty(&self, language: &str) -> bool {
        let installs = self.0.get(language);
        installs.is_none_or(|installs| installs.there.is_empty())
    }

    /// Whether exactly this version is there already.
    pub(super) fn has(&self, language: &str, found: &Found) -> bool {
        let installs = self.0.get(language);
        installs.is_some_and(|installs| installs.there.contains(found))
    }

    /// The version in which a package is there.
    pub(super) fn version_of(&self, language: &str, name: &str) -> Option<&str> {
        let there = self.0.get(language)?.there.iter();
        let found = there.filter(|found| found.name == name);
        found.map(|found| found.version.as_str()).next()
    }

    /// Records what is there now.
    pub(super) fn set(&mut self, language: &str, all: &[Requirement], there: &[Found]) {
        let pinned = |requirement: &Requirement| {
            let mut found = there.iter();
            match found.find(|found| requirement.is_for(&found.name)) {
                Some(found) => requirement.pinned(&found.version),
                // It is part of the runner, whose next version may have another one; its extras may be installed.
                None => requirement.in_any_version(),
            }
        };
        if all.is_empty() {
            self.0.remove(language);
            return;
        }
        let installs = Installs {
            asked: all.iter().map(|one| pinned(one).to_string()).collect(),
            there: there.to_vec(),
        };
        self.0.insert(language.to_owned(), installs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(text: &str) -> Requirement {
        Requirement::read(Ecosystem::Python, text, "").unwrap()
    }

    fn found(name: &str, version: &str) -> Found {
        Found {
            name: name.to_owned(),
            version: version.to_owned(),
        }
    }

    #[test]
    fn earlier_ones_keep_their_versions_unless_they_are_asked_for_again() {
        let mut note = Note::default();
        let asked = ["Some_Thing[extra]>=1", "other", "provided[extra]>1"].map(requirement);
        let there = [
            found("some-thing", "1.2"),
            found("other", "3"),
            found("needed", "1"),
        ];
        note.set("python", &asked, &there);
        let note = Note::parse(&note.render());
        let all = |now: &str| {
            let all = note.with_earlier("python", Ecosystem::Python, &[requirement(now)]);
            all.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let earlier = ["some-thing[extra]==1.2", "other==3", "provided[extra]"];
        assert_eq!(all("new"), [&["new"], &earlier[..]].concat());
        assert_eq!(
            all("some.thing>2"),
            [&["some-thing[extra]>2"], &earlier[1..]].concat()
        );
        assert_eq!(
            all("some-thing[another, Extra]"),
            [&["some-thing[another,extra]"], &earlier[1..]].concat()
        );
        assert!(note.has("python", &found("needed", "1")));
        assert!(!note.has("typescript", &found("needed", "1")));
    }

    #[test]
    fn what_was_asked_for_with_many_extras_is_not_forgotten() {
        let mut note = Note::default();
        for number in 0..100 {
            let asked = [requirement(&format!("some[extra-{number}]"))];
            let all = note.with_earlier("python", Ecosystem::Python, &asked);
            note.set("python", &all, &[found("some", "1.2")]);
        }
        let all = note.with_earlier("python", Ecosystem::Python, &[requirement("other")]);
        assert_eq!(all[1].to_string().matches("extra-").count(), 100);
        for number in 100..1000 {
            let asked = [requirement(&format!("some[extra-{number}]"))];
            let all = note.with_earlier("python", Ecosystem::Python, &asked);
            let text = all[0].to_string();
            assert!(text.contains(&format!("extra-{number}")), "{text}");
            assert!(text.matches("extra-").count() <= 200, "{text}");
            note.set("python", &all, &[found("some", "1.2")]);
        }
    }

    #[test]
    fn a_note_that_is_none_is_empty() {
        for text in ["", "{", "[]", r#"{"python": 1}"#] {
            assert_eq!(Note::parse(text), Note::default());
        }
    }
}
