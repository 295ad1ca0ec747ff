//! The environment of a run: the caller's, within limits, and then what the server sets.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::config::variable::{MAX_NAME_BYTES, is_name};

/// The most variables that a caller may set.
const MAX_VARIABLES: usize = 64;
/// Longest value in bytes.
const MAX_VALUE_BYTES: usize = 8 << 10;
/// All names and values together, in bytes.
const MAX_TOTAL_BYTES: usize = 32 << 10;
/// Where programs find the address under which their files can be downloaded.
const FILE_BASE_URL: &str = "FILE_BASE_URL";

/// What is wrong with a caller's environment.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EnvironmentError {
    /// More than [`MAX_VARIABLES`].
    #[error(
        "environment has {0} variables, the limit is {MAX_VARIABLES}: pass large data as a file"
    )]
    Count(usize),
    /// Not a name that a shell could use.
    #[error(
        "environment has the name {0:?}: a name is a letter or _, then letters, digits and _, at most {MAX_NAME_BYTES}"
    )]
    Name(String),
    /// The value has a NUL character.
    #[error("environment variable {0} contains a NUL character: remove it")]
    Nul(String),
    /// The value is longer than [`MAX_VALUE_BYTES`].
    #[error(
        "environment variable {0} has {1} bytes, the limit is {MAX_VALUE_BYTES}: pass large data as a file"
    )]
    Value(String, usize),
    /// A secret that the run asks for sets it too.
    #[error(
        "environment sets {0}, which is the variable of a secret: leave it out of environment or of secrets"
    )]
    Secret(String),
    /// Names and values together exceed [`MAX_TOTAL_BYTES`].
    #[error(
        "environment has {0} bytes in all, the limit is {MAX_TOTAL_BYTES}: pass large data as a file"
    )]
    Total(usize),
}

/// Checks the caller's variables and adds the server's own, which go last and so win.
pub(super) fn environment(
    caller: &BTreeMap<String, String>,
    secrets: &[String],
    file_base_url: String,
) -> Result<BTreeMap<String, String>, EnvironmentError> {
    check_environment(caller)?;
    if let Some(name) = caller.keys().find(|name| secrets.contains(name)) {
        return Err(EnvironmentError::Secret(name.clone()));
    }
    let mut all = caller.clone();
    all.insert(FILE_BASE_URL.to_owned(), file_base_url);
    Ok(all)
}

/// Checks the caller's variables against the limits.
pub(crate) fn check_environment(caller: &BTreeMap<String, String>) -> Result<(), EnvironmentError> {
    if caller.len() > MAX_VARIABLES {
        return Err(EnvironmentError::Count(caller.len()));
    }
    for (name, value) in caller {
        check(name, value)?;
    }
    let lengths = caller.iter().map(|(name, value)| name.len() + value.len());
    let total = lengths.sum();
    if total > MAX_TOTAL_BYTES {
        return Err(EnvironmentError::Total(total));
    }
    Ok(())
}

fn check(name: &str, value: &str) -> Result<(), EnvironmentError> {
    if !is_name(name) {
        let shown: String = name.chars().take(MAX_NAME_BYTES).collect();
        return Err(EnvironmentError::Name(shown));
    }
    if value.contains('\0') {
        return Err(EnvironmentError::Nul(name.to_owned()));
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err(EnvironmentError::Value(name.to_owned(), value.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<BTreeMap<String, String>, EnvironmentError> {
        environment(
            &BTreeMap::from([(name.to_owned(), value.to_owned())]),
            &["GITHUB_TOKEN".to_owned()],
            "http://files".to_owned(),
        )
    }

    #[test]
    fn the_servers_own_variable_wins() {
        assert_eq!(
            with("FILE_BASE_URL", "http://evil").unwrap()["FILE_BASE_URL"],
            "http://files"
        );
    }

    #[test]
    fn bad_variables_are_named() {
        insta::assert_snapshot!(with("=x", "").unwrap_err(), @r#"environment has the name "=x": a name is a letter or _, then letters, digits and _, at most 128"#);
        insta::assert_snapshot!(with("A", "\0").unwrap_err(), @"environment variable A contains a NUL character: remove it");
        insta::assert_snapshot!(with("A", &"x".repeat(9000)).unwrap_err(), @"environment variable A has 9000 bytes, the limit is 8192: pass large data as a file");
        insta::assert_snapshot!(with("GITHUB_TOKEN", "mine").unwrap_err(), @"environment sets GITHUB_TOKEN, which is the variable of a secret: leave it out of environment or of secrets");
    }
}
