//! Names of files as these clients write them: `/home/user/x`, `~/x` and `x` are one file, which programs see as
//! `/data/x`. Pure.

use std::borrow::Cow;

use crate::api::error::CallError;
use crate::executor::spec::{DATA_ALIAS, DATA_PATH};
use crate::files::FilesError;
use crate::http::rest::ApiError;
use crate::workspace::path::RelativePath;

/// What clients take for the home of their user.
pub(super) const HOME: &str = "/home/user";
/// Other names of it.
const HOMES: [&str; 4] = [HOME, DATA_PATH, DATA_ALIAS, "~"];

/// What is below the home in a path, without parts that mean nothing. `None` if it is elsewhere.
fn below_home(path: &str) -> Option<String> {
    let below = |home: &str| {
        let rest = path.strip_prefix(home)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    let below = HOMES.into_iter().find_map(below);
    let below = below.or_else(|| (!path.starts_with('/')).then_some(path))?;
    let parts = below.split('/').filter(|part| !matches!(*part, "" | "."));
    Some(parts.collect::<Vec<_>>().join("/"))
}

/// The file or folder that a path stands for; `None` is the home itself.
pub(super) fn named(path: &str) -> Result<Option<RelativePath>, ApiError> {
    let Some(below) = below_home(path) else {
        let path: String = path.chars().take(64).collect();
        let message =
            format!("path is {path:?}: only what is in {HOME} is kept, so choose a path there");
        return Err(ApiError::arguments(message));
    };
    if below.is_empty() {
        return Ok(None);
    }
    RelativePath::parse_for_upload(&below)
        .map(Some)
        .map_err(|error| from_files(FilesError::Path(error)))
}

/// The same where the home itself cannot be meant.
pub(super) fn inside(path: &str) -> Result<RelativePath, ApiError> {
    let named = named(path)?;
    named.ok_or_else(|| ApiError::arguments(format!("path is {HOME} itself: name something in it")))
}

/// A failure about a file, in whose message its name is called `path`.
pub(super) fn from_files(error: FilesError) -> ApiError {
    ApiError(CallError::from(error).naming(|_| "path"))
}

/// How clients are told a path.
pub(super) fn shown(path: &str) -> String {
    format!("{HOME}/{path}")
}

/// What programs call a directory, which need not be in the home.
pub(super) fn of_programs(path: &str) -> Cow<'_, str> {
    match below_home(path) {
        None => path.into(),
        Some(below) if below.is_empty() => DATA_PATH.into(),
        Some(below) => format!("{DATA_PATH}/{below}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_name_however_it_is_written() {
        for path in [
            "a/x",
            "./a/x",
            "~/a/x",
            "/home/user/a/x",
            "/home/user//a/./x",
            "/data/a/x",
            "/mnt/data/a/x",
        ] {
            let name = named(path).unwrap().map(|name| name.as_str().to_owned());
            assert_eq!(name.as_deref(), Some("a/x"), "{path}");
        }
        for path in [
            "",
            ".",
            "~",
            "/home/user",
            "/home/user/",
            "/data",
            "/mnt/data/.",
        ] {
            assert_eq!(named(path).unwrap(), None, "{path}");
        }
    }

    #[test]
    fn what_is_elsewhere_is_refused() {
        for path in [
            "/",
            "/tmp/x",
            "/home/user2/x",
            "/etc/passwd",
            "../x",
            "a/../../x",
        ] {
            assert!(named(path).is_err(), "{path}");
        }
        assert_eq!(of_programs("/tmp/x"), "/tmp/x");
        assert_eq!(of_programs("~/x"), "/data/x");
    }
}
