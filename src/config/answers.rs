//! What answers to MCP clients have beside text and pictures.

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Never];

    fn read(reader: &mut Reader<'_>, name: &'static str) -> Self {
        let given = reader.text(name).unwrap_or_default();
        let found = Self::ALL.into_iter().find(|each| each.as_str() == given);
        found.unwrap_or_else(|| {
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

    /// The word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}
