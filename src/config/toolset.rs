//! Which tools MCP clients are shown.

use super::reader::Reader;

/// A set of tools, under the names that its clients know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Toolset {
    /// Our own.
    #[default]
    Default,
    /// `sandbox_run_python` and the like, with sessions and artifacts.
    Artifacts,
    /// `execute_python` and `pip_install`.
    Python,
}

impl Toolset {
    const ALL: [Self; 3] = [Self::Default, Self::Artifacts, Self::Python];

    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let given = reader.text("MCP_TOOLSET").unwrap_or_default();
        let found = Self::ALL.into_iter().find(|each| each.as_str() == given);
        found.unwrap_or_else(|| {
            reader.reject("MCP_TOOLSET", "`default`, `artifacts` or `python`");
            Self::Default
        })
    }

    /// The word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Artifacts => "artifacts",
            Self::Python => "python",
        }
    }
}
