//! Pages of a list of files, small enough for an answer that a model reads.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Serialize;

use super::{FileList, FilesError};
use crate::links::FileLink;
use crate::workspace::path::RelativePath;

/// Most files of one page.
const MAX_FILES: usize = 200;
/// Most bytes of the files of one page as JSON. The keys in links are written in hexadecimal digits, of which one token
/// has about two: this is 16,000 tokens at most, where clients refuse an answer of more than 25,000.
const MAX_BYTES: usize = 32 << 10;
/// What a cursor begins with, before the name of the last file of the page before.
const AFTER: &str = "after:";

/// A page of the files of a conversation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilePage {
    /// The files by name.
    pub files: Vec<FileLink>,
    /// How many files there are on all pages.
    pub total: usize,
    /// Give this as `cursor` to get the next page; missing on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Why the list is not complete; null when it is.
    pub truncated: Option<String>,
    /// Files that are left out because their names are not valid UTF-8.
    pub skipped: u64,
}

impl FileList {
    /// The page after the one that `cursor` is from, or the first one.
    ///
    /// A cursor holds the name of a file, so that a file that is made or deleted meanwhile moves no other to a page
    /// that was read before.
    ///
    /// # Errors
    /// The cursor is none of ours.
    pub fn page(self, cursor: Option<&str>) -> Result<FilePage, FilesError> {
        let after = cursor.map(name).transpose()?;
        let total = self.files.len();
        let mut files = self.files;
        if let Some(after) = after {
            files.retain(|file| file.name > after);
        }
        let count = fitting(&files[..files.len().min(MAX_FILES)]);
        let has_more = count < files.len();
        files.truncate(count);
        Ok(FilePage {
            next_cursor: files.last().filter(|_| has_more).map(cursor_after),
            files,
            total,
            truncated: self.truncated,
            skipped: self.skipped,
        })
    }
}

/// How many of the first files fit into an answer: one at least.
pub(crate) fn fitting(files: &[FileLink]) -> usize {
    let mut bytes = 0;
    let fits = |file: &&FileLink| {
        // With a comma. Our own types always become JSON.
        bytes += serde_json::to_string(file).map_or(0, |json| json.len() + 1);
        bytes <= MAX_BYTES
    };
    let fit = files.iter().take_while(fits).count();
    fit.max(1).min(files.len())
}

fn cursor_after(file: &FileLink) -> String {
    URL_SAFE_NO_PAD.encode(format!("{AFTER}{}", file.name))
}

/// The name that a cursor holds.
fn name(cursor: &str) -> Result<String, FilesError> {
    let name = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let name = text.strip_prefix(AFTER)?;
        RelativePath::parse(name).ok()?;
        Some(name.to_owned())
    };
    name().ok_or(FilesError::Cursor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(names: &[String]) -> FileList {
        let file = |name: &String| FileLink {
            url: format!("http://localhost:8080/files/{}/{name}", "0".repeat(64)),
            size: 1,
            mime_type: "text/plain".to_owned(),
            new: false,
            name: name.clone(),
        };
        FileList {
            files: names.iter().map(file).collect(),
            truncated: None,
            skipped: 0,
        }
    }

    /// The names of all pages, each of them.
    fn pages(list: &FileList) -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        let mut cursor = None;
        loop {
            let page = list.clone().page(cursor.as_deref()).unwrap();
            assert_eq!(page.total, list.files.len());
            pages.push(page.files.into_iter().map(|file| file.name).collect());
            cursor = page.next_cursor;
            if cursor.is_none() {
                return pages;
            }
        }
    }

    proptest! {
        #[test]
        fn every_file_is_on_one_page(names in proptest::collection::btree_set("[a-zé/]{1,4}|[a-z]{200,255}", 0..400)) {
            let names: Vec<_> = names.into_iter().filter(|name| RelativePath::parse(name).is_ok()).collect();
            let pages = pages(&list(&names));
            prop_assert_eq!(pages.concat(), names);
            prop_assert!(pages.iter().all(|page| page.len() <= MAX_FILES));
        }

        #[test]
        fn any_cursor_is_read_or_refused(cursor in "\\PC*") {
            let _ = list(&[]).page(Some(&cursor));
        }
    }

    #[test]
    fn what_comes_and_goes_between_pages_moves_no_file() {
        let mut names: Vec<_> = (0..300).map(|number| format!("{number:03}")).collect();
        let first = list(&names).page(None).unwrap();
        let last = first.files.last().unwrap().name.clone();
        let next = names.iter().find(|name| **name > last).unwrap().clone();
        names.retain(|name| *name != last);
        names.insert(0, "!".to_owned());
        let second = list(&names).page(first.next_cursor.as_deref()).unwrap();
        assert_eq!(second.files[0].name, next);
    }

    #[test]
    fn a_page_has_one_file_at_least() {
        let long = list(&["é".repeat(40_000), "z".to_owned()]);
        assert_eq!(fitting(&long.files), 1);
        assert_eq!(fitting(&[]), 0);
    }

    #[test]
    fn other_cursors_are_refused() {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for cursor in [
            String::new(),
            "2".to_owned(),
            "YQ==".to_owned(),
            encode("before:a"),
            encode("after:"),
            encode("after:../a"),
        ] {
            let error = list(&[]).page(Some(&cursor)).unwrap_err();
            assert!(matches!(error, FilesError::Cursor), "{cursor}");
        }
    }
}
