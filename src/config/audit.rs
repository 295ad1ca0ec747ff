//! Where it is recorded who did what.

use std::path::PathBuf;

use super::reader::Reader;

/// The value of `AUDIT_LOG` for standard output.
const STDOUT: &str = "stdout";

/// Where it is recorded who did what, and whether nothing happens without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditConfig {
    /// Where lines are written; `None` means that nothing is recorded (`AUDIT_LOG`).
    pub log: Option<AuditTarget>,
    /// Whether runs, installs and changes of files are refused while it cannot be written (`AUDIT_REQUIRED`).
    pub required: bool,
}

/// Where lines are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// A file.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

impl AuditConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let log = reader.path("AUDIT_LOG").map(|path| {
            if path.as_os_str() == STDOUT {
                AuditTarget::Stdout
            } else {
                AuditTarget::File(path)
            }
        });
        let required = reader.flag("AUDIT_REQUIRED");
        if required && log.is_none() {
            reader.reject(
                "AUDIT_REQUIRED",
                "0 without AUDIT_LOG, which names the file that is required",
            );
        }
        Self { log, required }
    }

    pub(super) fn lines(&self) -> [(&'static str, String); 2] {
        let log = self.log.as_ref().map_or_else(String::new, |log| match log {
            AuditTarget::File(path) => path.display().to_string(),
            AuditTarget::Stdout => STDOUT.to_owned(),
        });
        let required = u8::from(self.required).to_string();
        [("AUDIT_LOG", log), ("AUDIT_REQUIRED", required)]
    }
}
