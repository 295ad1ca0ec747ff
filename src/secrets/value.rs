//! Where the value of a secret is, and what it has to be. It is read for each run, so one that is replaced counts at once.

use std::fmt;
use std::io::{self, Read as _};
use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};
use thiserror::Error;

use crate::config::Environment;
use crate::private_file;

/// Fewest bytes that nobody knows: shorter ones could stand in an answer by chance.
pub(super) const MIN_BYTES: usize = 16;
/// Most bytes.
pub(super) const MAX_BYTES: usize = 8 << 10;

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In a file.
    File(PathBuf),
    /// In a variable of the server's process.
    Variable(String),
}

/// Why a value cannot be used. It says nothing of the value.
#[derive(Debug, Error)]
pub(super) enum ValueFlaw {
    #[error("its file {} cannot be read", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    #[error("the server has no variable {0}")]
    NoVariable(String),
    #[error("it is {0} bytes long, beside its prefix: it must be {MIN_BYTES} at least")]
    Short(usize),
    #[error("it is longer than {MAX_BYTES} bytes")]
    Long,
    #[error(
        "it has something else in it than printable ASCII, such as a second line, or begins or ends with a space"
    )]
    Unprintable,
    #[error("it does not begin with its prefix")]
    Prefix,
}

impl Source {
    /// The value, without one newline at its end.
    pub(super) fn read(&self, prefix: &str) -> Result<SecretString, ValueFlaw> {
        let value = match self {
            Self::File(path) => {
                let unreadable = |error| ValueFlaw::Unreadable(path.clone(), error);
                let (file, _) = private_file::open(path).map_err(unreadable)?;
                let mut bytes = Vec::with_capacity(MAX_BYTES + 3);
                let mut file = file.take(MAX_BYTES as u64 + 3);
                file.read_to_end(&mut bytes).map_err(unreadable)?;
                let text = String::from_utf8(bytes);
                text.map_err(|_| ValueFlaw::Unprintable)?
            }
            Self::Variable(name) => Environment::default()
                .get(name)
                .ok_or_else(|| ValueFlaw::NoVariable(name.clone()))?,
        };
        checked(value, prefix)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(formatter),
            Self::Variable(name) => write!(formatter, "${name}"),
        }
    }
}

fn checked(mut value: String, prefix: &str) -> Result<SecretString, ValueFlaw> {
    if value.ends_with('\n') {
        value.pop();
        if value.ends_with('\r') {
            value.pop();
        }
    }
    let value = SecretString::from(value);
    let text = value.expose_secret();
    let is_printable = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    if text.len() > MAX_BYTES {
        return Err(ValueFlaw::Long);
    }
    if !text.bytes().all(is_printable) || text.trim().len() != text.len() {
        return Err(ValueFlaw::Unprintable);
    }
    let rest = text.strip_prefix(prefix).ok_or(ValueFlaw::Prefix)?;
    if rest.len() < MIN_BYTES {
        return Err(ValueFlaw::Short(rest.len()));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(value: &str, prefix: &str) -> String {
        match checked(value.to_owned(), prefix) {
            Ok(value) => format!("{} bytes", value.expose_secret().len()),
            Err(flaw) => flaw.to_string(),
        }
    }

    #[test]
    fn a_value_is_one_line_of_printable_ascii_that_is_long_enough() {
        let long = "x".repeat(MAX_BYTES + 1);
        let told = [
            told("0123456789abcdef", ""),
            told("0123456789abcdef\n", ""),
            told("0123456789abcdef\r\n", ""),
            told("0123456789 abcdef", ""),
            told("0123456789abcdef\n\n", ""),
            told(" 0123456789abcdef", ""),
            told("0123456789abcdé", ""),
            told("0123456789abcde", ""),
            told("ghp_0123456789ab", "ghp_"),
            told("0123456789abcdef", "ghp_"),
            told("", ""),
            told(&long, ""),
        ];
        insta::assert_snapshot!(told.join("\n"), @r"
        16 bytes
        16 bytes
        16 bytes
        17 bytes
        it has something else in it than printable ASCII, such as a second line, or begins or ends with a space
        it has something else in it than printable ASCII, such as a second line, or begins or ends with a space
        it has something else in it than printable ASCII, such as a second line, or begins or ends with a space
        it is 15 bytes long, beside its prefix: it must be 16 at least
        it is 12 bytes long, beside its prefix: it must be 16 at least
        it does not begin with its prefix
        it is 0 bytes long, beside its prefix: it must be 16 at least
        it is longer than 8192 bytes
        ");
    }
}
