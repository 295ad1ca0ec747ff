//! Where settings come from: the environment of the process, and a `.env` for what that does not set.

use std::path::{Path, PathBuf};

use secrecy::ExposeSecret as _;

use super::dotenv::{self, BadLine, DotenvError, Settings};

/// The environment of the process: alone by default, or with what a file adds to it.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// What the file sets.
    file: Settings,
    /// Where it is, and its lines that set nothing.
    path: PathBuf,
    bad_lines: Vec<BadLine>,
}

impl Environment {
    /// The process's own environment with the settings of that file. If the file sets a name more than once, the last
    /// one counts, as it does for a shell, Compose and systemd.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn with_file(path: &Path) -> Result<Self, DotenvError> {
        let (file, bad_lines) = dotenv::read(path)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            bad_lines,
        })
    }

    /// Checks that every line of the file is a setting.
    ///
    /// # Errors
    /// Some are not: all of these are named.
    pub fn check_lines(&self) -> Result<(), DotenvError> {
        if self.bad_lines.is_empty() {
            return Ok(());
        }
        Err(DotenvError::Lines {
            path: self.path.clone(),
            lines: self.bad_lines.clone(),
        })
    }

    /// A setting, for [`Config::from_lookup`](super::Config::from_lookup). One without a value counts as not set.
    pub fn get(&self, name: &str) -> Option<String> {
        let in_file = || Some(self.file.get(name)?.expose_secret().to_owned());
        of_process(name)
            .or_else(in_file)
            .filter(|value| !value.trim().is_empty())
    }

    /// The names of what the process's environment sets.
    pub fn names(&self) -> impl Iterator<Item = String> {
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())
    }

    /// The names of what the file sets.
    pub fn names_in_file(&self) -> impl Iterator<Item = String> {
        self.file.keys().cloned()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the environment"
)]
fn of_process(name: &str) -> Option<String> {
    let value = std::env::var(name).ok();
    value.filter(|value| !value.trim().is_empty())
}
