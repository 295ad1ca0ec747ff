//! Names of files in a workspace, as callers and programs give them: pure checks, no file system.
//!
//! A [`RelativePath`] can only be made of parts that name something *below* a directory. That alone is not safe, since
//! a part may be a link: files are opened by [`beneath`](super::beneath), which follows none.

mod given;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::argument::Argument::Filename;

/// Folder of all packages in a workspace. It is in no listing, and its files are neither uploaded nor downloaded.
pub const PACKAGES: &str = ".packages";
/// Most parts of a name: `a/b/c.txt` has three.
pub const MAX_PARTS: usize = 8;
/// Longest part of a name in bytes, which is also what file systems allow.
pub const MAX_PART_BYTES: usize = 255;

/// The name of a file in a workspace: 1 to 8 parts of 1 to 255 bytes of UTF-8, joined by `/`.
///
/// No part is `.` or `..` or contains NUL, so a name is at most 2,047 bytes long and never leads upwards.
/// Names are compared byte by byte, without any normalisation. Clones share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelativePath(Arc<str>);

/// It is looked up by its name.
impl Borrow<str> for RelativePath {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

/// Whether an entry at the top of a workspace is the folder of packages, or something that has its name.
pub(super) fn is_packages(name: &[u8]) -> bool {
    name == PACKAGES.as_bytes()
}

/// Why a string cannot name a file of a workspace. Messages say what to do.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PathError {
    /// The name has no characters.
    #[error("{Filename} is empty: give a name such as data.csv or folder/data.csv")]
    Empty,
    /// The name starts with `/`.
    #[error(
        "{Filename} starts with '/': names are relative to /data, so leave out everything up to /data/"
    )]
    Absolute,
    /// The name begins with `~/`.
    #[error(
        "{Filename} begins with ~/, the home of programs, of which nothing is kept: save files in /data, and give \
         their names there"
    )]
    Home,
    /// The name ends with `/` or has two in a row.
    #[error(
        "{Filename} has an empty part: put exactly one '/' between folders, and none at the end"
    )]
    EmptyPart,
    /// A part is `.` or `..`.
    #[error("{Filename} contains the part {0:?}: name the folders on the way down instead")]
    Dots(&'static str),
    /// More than [`MAX_PARTS`] parts.
    #[error("{Filename} has {0} parts, the limit is {MAX_PARTS}: use fewer folders")]
    TooDeep(usize),
    /// A part is longer than [`MAX_PART_BYTES`].
    #[error(
        "{Filename} has a part of {0} bytes, the limit is {MAX_PART_BYTES}: use a shorter name"
    )]
    PartTooLong(usize),
    /// The name contains NUL.
    #[error("{Filename} contains a NUL character: remove it")]
    Nul,
    /// The name is below the folder of packages.
    #[error(
        "{Filename} is in .packages, where installed packages are, which are no files of the conversation: choose \
         another folder"
    )]
    Packages,
    /// The name of an upload contains a control character.
    #[error("{Filename} contains the control character {0:?}: use printable characters only")]
    Control(char),
    /// The name of an upload contains a backslash.
    #[error("{Filename} contains a backslash: separate folders with '/'")]
    Backslash,
}

impl RelativePath {
    /// Parses a name for reading. Control characters and backslashes are allowed, since programs make such files.
    ///
    /// # Errors
    /// The first rule that `name` breaks.
    pub fn parse(name: &str) -> Result<Self, PathError> {
        if name.is_empty() {
            return Err(PathError::Empty);
        }
        if name.starts_with('/') {
            return Err(PathError::Absolute);
        }
        if name.contains('\0') {
            return Err(PathError::Nul);
        }
        let parts = name.split('/').count();
        if parts > MAX_PARTS {
            return Err(PathError::TooDeep(parts));
        }
        name.split('/').try_for_each(check_part)?;
        if name.split('/').next() == Some(PACKAGES) {
            return Err(PathError::Packages);
        }
        Ok(Self(name.into()))
    }

    /// Parses a name as a caller gives it, who may write `/data/x.csv` or `./x.csv` for `x.csv`.
    ///
    /// # Errors
    /// The first rule that `name` breaks.
    pub fn given(name: &str) -> Result<Self, PathError> {
        Self::parse(not_at_home(&given::below_data(name))?)
    }

    /// The name in one that has quotes around it, if both can be names: programs make files with such names too, so
    /// what there is goes first.
    pub fn without_quotes(name: &str) -> Option<Self> {
        Self::given(given::unquoted(name)?).ok()
    }

    /// The same as [`given`](Self::given) for a new file, in whose name quotes around it are never meant.
    ///
    /// # Errors
    /// The first rule that `name` breaks.
    pub fn given_for_upload(name: &str) -> Result<Self, PathError> {
        let name = given::unquoted(name).unwrap_or(name);
        Self::parse_for_upload(not_at_home(&given::below_data(name))?)
    }

    /// Parses a name for a new file: like [`parse`](Self::parse), but refuses control characters and backslashes.
    ///
    /// A backslash would be part of the name here, which a caller from Windows never means, and web clients turn it
    /// into `/` in links.
    ///
    /// # Errors
    /// The first rule that `name` breaks.
    pub fn parse_for_upload(name: &str) -> Result<Self, PathError> {
        let path = Self::parse(name)?;
        if name.contains('\\') {
            return Err(PathError::Backslash);
        }
        match name.chars().find(|character| character.is_control()) {
            Some(control) => Err(PathError::Control(control)),
            None => Ok(path),
        }
    }

    /// The whole name, parts joined by `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The parts before the last one, from the outermost folder on. None for a file at the top.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        let folders = self.0.rsplit_once('/').map_or("", |(folders, _)| folders);
        folders.split('/').filter(|part| !part.is_empty())
    }

    /// The parts from the outermost folder to the file.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

/// Refuses what a shell would look for in the home of programs, where a caller does not mean a folder called `~`.
fn not_at_home(name: &str) -> Result<&str, PathError> {
    match name {
        "~" => Err(PathError::Home),
        _ if name.starts_with("~/") => Err(PathError::Home),
        _ => Ok(name),
    }
}

fn check_part(part: &str) -> Result<(), PathError> {
    match part {
        "" => Err(PathError::EmptyPart),
        "." => Err(PathError::Dots(".")),
        ".." => Err(PathError::Dots("..")),
        _ if part.len() > MAX_PART_BYTES => Err(PathError::PartTooLong(part.len())),
        _ => Ok(()),
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(name: &str) -> String {
        RelativePath::parse_for_upload(name)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn refusals_say_what_to_do() {
        insta::assert_snapshot!(refusal(""), @"filename is empty: give a name such as data.csv or folder/data.csv");
        insta::assert_snapshot!(refusal("/data/a"), @"filename starts with '/': names are relative to /data, so leave out everything up to /data/");
        insta::assert_snapshot!(refusal("a//b"), @"filename has an empty part: put exactly one '/' between folders, and none at the end");
        insta::assert_snapshot!(refusal("a/"), @"filename has an empty part: put exactly one '/' between folders, and none at the end");
        insta::assert_snapshot!(refusal("a/../b"), @r#"filename contains the part "..": name the folders on the way down instead"#);
        insta::assert_snapshot!(refusal("1/2/3/4/5/6/7/8/9"), @"filename has 9 parts, the limit is 8: use fewer folders");
        insta::assert_snapshot!(refusal(&"x".repeat(256)), @"filename has a part of 256 bytes, the limit is 255: use a shorter name");
        insta::assert_snapshot!(refusal("a\0b"), @"filename contains a NUL character: remove it");
        insta::assert_snapshot!(refusal("a\nb"), @r"filename contains the control character '\n': use printable characters only");
        insta::assert_snapshot!(refusal("a\\b"), @"filename contains a backslash: separate folders with '/'");
    }

    #[test]
    fn reading_allows_what_programs_make() {
        for name in [
            "new\nline.txt",
            "back\\slash",
            "...",
            "..hidden",
            "\u{7f}",
            " ",
            "pct%2e%2e",
            "a/b/c/d/e/f/g/h",
        ] {
            assert_eq!(RelativePath::parse(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn parts_and_file_name_take_the_name_apart() {
        let path = RelativePath::parse("a/b/c.txt").unwrap();
        assert_eq!(path.parts().collect::<Vec<_>>(), ["a", "b", "c.txt"]);
        assert_eq!(path.folders().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(path.file_name(), "c.txt");
        let path = RelativePath::parse("c.txt").unwrap();
        assert_eq!(path.folders().count(), 0);
        assert_eq!(path.file_name(), "c.txt");
    }

    proptest! {
        #[test]
        fn whatever_parses_is_safe(name in "(\\PC|[/.\\\\\0\n]){0,40}") {
            if let Ok(path) = RelativePath::parse(&name) {
                prop_assert_eq!(path.as_str(), &name);
                prop_assert!(path.parts().count() <= MAX_PARTS);
                for part in path.parts() {
                    prop_assert!(!part.is_empty() && part.len() <= MAX_PART_BYTES);
                    prop_assert!(part != "." && part != ".." && !part.contains(['/', '\0']));
                }
            }
        }

        #[test]
        fn uploads_are_readable(name in "(\\PC|[/.\\\\\n]){0,20}") {
            if let Ok(path) = RelativePath::parse_for_upload(&name) {
                prop_assert_eq!(RelativePath::parse(&name), Ok(path));
                prop_assert!(!name.contains(|character: char| character.is_control() || character == '\\'));
            }
        }
    }
}
