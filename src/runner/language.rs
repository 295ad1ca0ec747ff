//! Which language a caller means, from the ways in which its name is written. Pure.

use std::borrow::Cow;

/// What may stand between a name and its version.
const SEPARATORS: &[char] = &[' ', '-', '_', '@', ':'];

/// A name that callers give, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked<'a> {
    /// The name as it is, in lower case.
    pub(super) whole: Cow<'a, str>,
    /// The same without the version at its end, and the first number of that version.
    pub(super) versioned: Option<(String, String)>,
}

/// Takes a name apart: `Python-3.12` is `python` of version 3.
pub(super) fn asked(name: &str) -> Asked<'_> {
    let name = name.trim();
    let whole = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    };
    let versioned = versioned(&whole);
    Asked { whole, versioned }
}

fn versioned(name: &str) -> Option<(String, String)> {
    let before = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let version = &name[before.len()..];
    let is_version = |part: &str| !part.is_empty();
    let (true, Some(major)) = (
        version.split('.').all(is_version),
        version.split('.').next(),
    ) else {
        return None;
    };
    let letter = before.strip_suffix('v');
    let before = letter
        .filter(|rest| rest.ends_with(SEPARATORS))
        .unwrap_or(before)
        .trim_end_matches(SEPARATORS);
    (!before.is_empty()).then(|| (before.to_owned(), major.to_owned()))
}

/// A name without what some write between its parts: `node.js` is `nodejs`.
pub(super) fn joined(name: &str) -> String {
    let joins = |c: char| c == '.' || SEPARATORS.contains(&c);
    name.chars().filter(|c| !joins(*c)).collect()
}

/// Whether names with these versions at their end allow this one. `python3` says that `python2` is another language;
/// where no name has a version, any will do.
pub(super) fn allows<'a>(names: impl Iterator<Item = &'a String>, major: &str) -> bool {
    let mut majors = names.filter_map(|name| Some(versioned(name)?.1)).peekable();
    majors.peek().is_none() || majors.any(|known| known == major)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_are_told_from_names() {
        for (name, parts) in [
            ("python3.12", Some(("python", "3"))),
            ("Python 3", Some(("python", "3"))),
            ("python:3.13.1", Some(("python", "3"))),
            ("node-v20", Some(("node", "20"))),
            ("node.js20", Some(("node.js", "20"))),
            ("python", None),
            ("python3.", None),
            ("3", None),
            ("c++", None),
            ("", None),
        ] {
            let parts =
                parts.map(|(name, major): (&str, &str)| (name.to_owned(), major.to_owned()));
            assert_eq!(asked(name).versioned, parts, "{name}");
        }
    }

    #[test]
    fn a_version_in_a_name_excludes_others() {
        let names = ["py".to_owned(), "python3".to_owned()];
        assert!(allows(names.iter(), "3"));
        assert!(!allows(names.iter(), "2"));
        assert!(allows(names[..1].iter(), "2"));
    }

    proptest! {
        #[test]
        fn any_name_can_be_taken_apart(name in "\\PC{0,12}|[a-z]{0,3}[ .v@0-9]{0,6}") {
            let asked = asked(&name);
            joined(&asked.whole);
        }
    }
}
