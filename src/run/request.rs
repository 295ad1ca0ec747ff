//! A program that somebody wants to have run.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::conversation::ConversationId;

/// A program that somebody wants to have run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Whose files it sees.
    pub conversation: ConversationId,
    /// Language or alias.
    pub language: String,
    /// Source code.
    pub code: String,
    /// Whether it may use the network.
    pub network: bool,
    /// The caller's environment variables.
    pub environment: BTreeMap<String, String>,
    /// Time limit; `None` means the configured one.
    pub timeout: Option<Duration>,
    /// Whether it runs in the conversation's kernel of this language, where variables live on.
    pub stateful: bool,
    /// How it wants that kernel. Of no meaning unless `stateful`.
    pub kernel: KernelWish,
}

/// How a stateful run wants its kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelWish {
    /// Whether it waits in turn while another run has the kernel, instead of being refused.
    pub wait: bool,
    /// Whether it wants a new kernel, and the one that is there to be ended.
    pub restart: bool,
}
