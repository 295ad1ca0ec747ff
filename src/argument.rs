//! The arguments that use cases find mistakes in. Each interface has its own names for them.

use strum::{Display, IntoStaticStr};

/// What a message is about. One that is about an argument begins with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "camelCase")]
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
    /// How long a program may take.
    TimeoutSeconds,
}
