//! What our tools and their arguments are called in each set: the one place that translates what we say of them.

use crate::argument::Argument;
use crate::config::Toolset;

/// The tools with artifacts.
pub(crate) const RUN: &str = "sandbox_run_python";
pub(crate) const CLOSE: &str = "sandbox_close_session";
pub(crate) const LIST: &str = "sandbox_list_artifacts";
pub(crate) const READ: &str = "sandbox_read_artifact";
pub(crate) const UPLOAD: &str = "sandbox_upload_file";
/// The tools with one Python.
pub(crate) const EXECUTE: &str = "execute_python";
pub(crate) const INSTALL: &str = "pip_install";

/// What a tool of another server calls an argument.
pub(crate) fn argument(tool: &str, argument: Argument) -> &'static str {
    match (tool, argument) {
        (READ, Argument::Filename) => "path",
        (UPLOAD, Argument::Content) => "content_base64",
        (INSTALL, Argument::Packages) => "package",
        (_, Argument::ConversationId) => "session_id",
        (_, Argument::TimeoutSeconds) => "timeout",
        (_, other) => other.into_str(),
    }
}

/// Our tools that have a counterpart in the set with artifacts.
const ARTIFACTS: &[(&str, &str)] = &[
    ("delete_conversation", CLOSE),
    ("list_files", LIST),
    ("read_file", READ),
    ("run_code", RUN),
    ("upload_file", UPLOAD),
    ("conversationId", "session_id"),
    ("conversation", "session"),
];

/// The same for the set with one Python.
const PYTHON: &[(&str, &str)] = &[("install_packages", INSTALL), ("run_code", EXECUTE)];

/// A sentence with the names that the clients of a set know. What is in quotes is the caller's, and stays.
pub(crate) fn translated(toolset: Toolset, sentence: &str) -> String {
    let names = match toolset {
        Toolset::Default | Toolset::PythonTool => &[],
        Toolset::Artifacts => ARTIFACTS,
        Toolset::Python => PYTHON,
    };
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut out = String::with_capacity(sentence.len());
    let (mut rest, mut quoted) = (sentence, false);
    while !rest.is_empty() {
        let length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        let other = names.iter().find(|(ours, _)| !quoted && *ours == word);
        out.push_str(other.map_or(word, |(_, theirs)| theirs));
        let gap = after.find(is_part).unwrap_or(after.len());
        out.push_str(&after[..gap]);
        quoted ^= quotes(&after[..gap]) % 2 == 1;
        rest = &after[gap..];
    }
    out
}

/// How many quotes begin or end something: not those that are part of it, behind a backslash.
fn quotes(text: &str) -> usize {
    let mut characters = text.chars();
    let mut count = 0;
    while let Some(character) = characters.next() {
        match character {
            '"' => count += 1,
            '\\' => {
                characters.next();
            }
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_name_the_tools_of_the_set() {
        let sentence = "\"a \\\" conversation\" is not a file of this conversation: see list_files (not list_files_2)";
        let in_set = |toolset| translated(toolset, sentence);
        assert_eq!(in_set(Toolset::Default), sentence);
        insta::assert_snapshot!(in_set(Toolset::Artifacts), @r#""a \" conversation" is not a file of this session: see sandbox_list_artifacts (not list_files_2)"#);
        insta::assert_snapshot!(translated(Toolset::Python, "Add six with install_packages."), @"Add six with pip_install.");
    }
}
