//! Which tools MCP clients are shown.

use strum::{EnumString, IntoStaticStr};

use super::reader::Reader;

/// A set of tools, under the names that its clients know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Toolset {
    /// Our own.
    #[default]
    Default,
    /// `sandbox_run_python` and the like, with sessions and artifacts.
    Artifacts,
    /// `execute_python` and `pip_install`.
    Python,
    /// `python` alone. It is not to be set: the clients of `DIALECTS=python_tool` see it.
    PythonTool,
}

impl Toolset {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let given = reader.text("MCP_TOOLSET").unwrap_or_default();
        let parsed = given.parse().ok();
        let known = parsed.filter(|toolset| *toolset != Self::PythonTool);
        known.unwrap_or_else(|| {
            reader.reject("MCP_TOOLSET", "`default`, `artifacts` or `python`");
            Self::Default
        })
    }
}
