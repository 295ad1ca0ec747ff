//! The arguments that use cases find mistakes in. Each interface has its own names for them.

use std::fmt;

/// What a message is about. One that is about an argument begins with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The id of a conversation.
    ConversationId,
    /// The content of a file that is uploaded.
    Content,
    /// The place in a list to read on at.
    Cursor,
    /// The name of a file.
    Filename,
    /// What is to be installed.
    Packages,
    /// What is not to be installed any more.
    Remove,
}

impl Argument {
    /// What our own tools call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConversationId => "conversationId",
            Self::Content => "content",
            Self::Cursor => "cursor",
            Self::Filename => "filename",
            Self::Packages => "packages",
            Self::Remove => "remove",
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
