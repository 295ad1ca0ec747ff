//! `mcp-code-sandbox audit`: checks logs.

use std::path::PathBuf;

use clap::Subcommand;

use super::verify::{Broken, Verified, verify};

/// What can be done with audit logs.
#[derive(Clone, Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that each line follows on the one before, and say which is the first that does not.
    Verify {
        /// Files of one log, the oldest first.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

impl AuditCommand {
    /// Carries it out.
    ///
    /// # Errors
    /// A line does not fit, or a file cannot be read.
    pub fn run(&self) -> Result<Verified, Broken> {
        let Self::Verify { files } = self;
        verify(files)
    }
}
