//! Where settings come from: the environment of the process, and a `.env` for what that does not set.

use std::path::Path;

use secrecy::ExposeSecret as _;

use super::dotenv::{self, DotenvError, Settings};

/// The environment of the process: alone by default, or with what a file adds to it.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// What the file sets.
    file: Settings,
}

impl Environment {
    /// The process's own environment with the settings of that file. If the file sets a name more than once, the last
    /// one counts, as it does for a shell, Compose and systemd.
    ///
    /// # Errors
    /// The file cannot be read, or a line of it is not a setting.
    pub fn with_file(path: &Path) -> Result<Self, DotenvError> {
        let file = dotenv::read(path)?;
        Ok(Self { file })
    }

    /// A setting, for [`Config::from_lookup`](super::Config::from_lookup). One without a value counts as not set.
    pub fn get(&self, name: &str) -> Option<String> {
        let in_file = || Some(self.file.get(name)?.expose_secret().to_owned());
        of_process(name)
            .or_else(in_file)
            .filter(|value| !value.trim().is_empty())
    }

    /// The names of everything that is set.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let process = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        process.chain(self.file.keys().cloned())
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
