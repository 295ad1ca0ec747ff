//! For which other front ends the server has a base address.

use std::collections::BTreeSet;

use strum::{EnumString, IntoStaticStr, VariantNames};

use super::reader::Reader;

/// The interface of another code interpreter, which its clients find below a path of this server.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr, VariantNames,
)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Dialect {
    /// The sandbox of Dify, below `/dify`.
    Dify,
    /// The sandboxes of E2B, below `/e2b/api` and `/e2b/sandbox`.
    E2b,
    /// The kernel API of a Jupyter server, below `/jupyter`.
    Jupyter,
    /// The Code API of LibreChat, below `/librechat`.
    Librechat,
    /// The Python tool of gpt-oss, which vLLM connects to, below `/python`.
    PythonTool,
}

impl Dialect {
    /// Reads `DIALECTS`: none unless the operator names them.
    pub(super) fn read(reader: &mut Reader<'_>) -> BTreeSet<Self> {
        let expected = format!(
            "names separated by commas, of those that there are: {}",
            Self::VARIANTS.join(", ")
        );
        let named = reader.list("DIALECTS", &expected, |name| name.parse().ok());
        named.into_iter().collect()
    }
}
