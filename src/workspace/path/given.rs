//! Names of files as callers write them, for whom `/data/x.csv` and `./x.csv` are the same file. Pure.

use std::borrow::Cow;

use crate::executor::spec::{DATA_ALIAS, DATA_PATH};

/// How some models address files of a sandbox.
const SCHEMES: &[&str] = &["sandbox:", "file://", "file:"];

/// The name below `/data` that a caller means. What leads elsewhere is returned as it is, and is refused as such.
pub(super) fn below_data(name: &str) -> Cow<'_, str> {
    let address = SCHEMES
        .iter()
        .filter_map(|scheme| name.strip_prefix(scheme))
        .find(|path| path.starts_with('/') && !path.starts_with("//"));
    let path = address.unwrap_or(name);
    let roots = [DATA_PATH, DATA_ALIAS];
    let below = |root| path.strip_prefix(root)?.strip_prefix('/');
    let below = roots.into_iter().find_map(below);
    let path = below.unwrap_or(path);
    // The root itself, or something outside of it.
    if below.is_none() && path.starts_with('/') {
        return Cow::Borrowed(name);
    }
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
    let means_nothing = |part: &str| part.is_empty() || part == ".";
    // A folder is no file, whatever is in front of it.
    if means_nothing(file) || !folders.split('/').any(means_nothing) {
        return Cow::Borrowed(path);
    }
    let mut parts: Vec<_> = folders
        .split('/')
        .filter(|part| !means_nothing(part))
        .collect();
    parts.push(file);
    Cow::Owned(parts.join("/"))
}

/// What is between the quotes around a whole name.
pub(super) fn unquoted(name: &str) -> Option<&str> {
    let between = |quote: char| name.strip_prefix(quote)?.strip_suffix(quote);
    let quotes = ['"', '\'', '`'].into_iter();
    let mut found = quotes.filter_map(|quote| Some((quote, between(quote)?)));
    let (quote, inner) = found.next()?;
    (!inner.is_empty() && !inner.contains(quote)).then_some(inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::RelativePath;
    use super::*;

    #[test]
    fn a_file_has_one_name_however_it_is_written() {
        for name in [
            "a/x.csv",
            "./a/x.csv",
            "././a/./x.csv",
            "a//x.csv",
            "/data/a/x.csv",
            "/data//a/x.csv",
            "/data/./a/x.csv",
            "/mnt/data/a/x.csv",
            "sandbox:/mnt/data/a/x.csv",
            "file:///data/a/x.csv",
            "file:/mnt/data/a/x.csv",
        ] {
            assert_eq!(below_data(name), "a/x.csv", "{name}");
        }
        for name in [
            "data/x.csv",
            "mnt/data/x.csv",
            " x.csv",
            "...",
            "a b",
            "sandbox:x",
        ] {
            assert_eq!(below_data(name), name);
        }
    }

    #[test]
    fn quotes_around_a_name_can_be_taken_off() {
        for name in ["\"a b.csv\"", "'a b.csv'", "`a b.csv`"] {
            assert_eq!(unquoted(name), Some("a b.csv"), "{name}");
        }
        for name in ["a", "", "\"", "\"\"", "\"a", "\"a'", "\"a\"b\""] {
            assert_eq!(unquoted(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_elsewhere_stays_refused() {
        for name in [
            "",
            ".",
            "./",
            "a/",
            "/",
            "/data",
            "/data/",
            "/data/.",
            "/data/../etc/passwd",
            "/database/x",
            "/etc/passwd",
            "//data/x",
            "../x",
            "a/../x",
            "./.packages/x",
            "/data/.packages/x",
            "~/../x",
            "~/x",
            "./~/x",
            "~",
        ] {
            assert!(RelativePath::given(name).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_a_name_already_stays_as_it_is(name in "(\\PC|[/.\\\\\n]){0,30}") {
            if RelativePath::parse(&name).is_ok() {
                prop_assert_eq!(below_data(&name), name.as_str());
            }
        }

        #[test]
        fn a_name_is_the_same_the_second_time(name in "(sandbox:)?(/mnt)?(/data)?([a-c./]|\\PC){0,20}") {
            if let Ok(path) = RelativePath::given(&name) {
                prop_assert_eq!(RelativePath::given(path.as_str()), Ok(path));
            }
        }
    }
}
