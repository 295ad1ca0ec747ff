//! What answers to MCP clients have beside text and pictures.

use strum::{EnumString, IntoStaticStr};

use super::reader::Reader;

/// What answers to MCP clients have beside text and pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerConfig {
    /// Links to new files as content of their own (`RESOURCE_LINKS`).
    pub resource_links: Inclusion,
    /// The answer as an object beside the text, and its schema (`STRUCTURED_CONTENT`).
    pub structured_content: Inclusion,
    /// Pictures as content of their own (`PICTURES`).
    pub pictures: Inclusion,
}

/// Who gets a part of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Inclusion {
    /// All clients but those that are known to do badly with it.
    #[default]
    Auto,
    /// All clients.
    Always,
    /// No client.
    Never,
}

impl AnswerConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            resource_links: Inclusion::read(reader, "RESOURCE_LINKS"),
            structured_content: Inclusion::read(reader, "STRUCTURED_CONTENT"),
            pictures: Inclusion::read(reader, "PICTURES"),
        }
    }
}

impl Inclusion {
    fn read(reader: &mut Reader<'_>, name: &'static str) -> Self {
        let given = reader.text(name).unwrap_or_default();
        given.parse().unwrap_or_else(|_| {
            reader.reject(name, "`auto`, `always` or `never`");
            Self::Auto
        })
    }

    /// Whether a client gets it, if it is known whether the client `takes` it.
    pub const fn applies(self, takes: bool) -> bool {
        match self {
            Self::Auto => takes,
            Self::Always => true,
            Self::Never => false,
        }
    }
}
