//! What is recorded. No event has code, the content of a file, output or a token.

use std::net::IpAddr;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::origin::{Client, Operator, Origin};
use crate::conversation::Conversation;
use crate::egress::NetworkReport;
use crate::principal::Principal;

/// Digits of a caller's tag.
const TAG_DIGITS: usize = 12;
/// Longest word of a caller's that is kept, such as a file name, in characters.
const MAX_WORD: usize = 512;

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A server began.
    ServerStarted {
        /// Version and commit.
        version: &'static str,
    },
    /// It ended in order.
    ServerStopped,
    /// Somebody was not let in.
    AuthDenied {
        /// The other end of the connection, which can be a proxy.
        #[serde(skip_serializing_if = "Option::is_none")]
        address: Option<IpAddr>,
        /// Method and template of the route.
        route: String,
        /// Why not.
        reason: &'static str,
    },
    /// More of these than are recorded one by one.
    AuthDeniedMore {
        /// How many were left out.
        count: u64,
    },
    /// A caller was let in for the first time since the start.
    TokenFirstUsed {
        /// Who.
        #[serde(flatten)]
        subject: Subject,
    },
    /// A run was taken on. It may still wait, or be refused.
    RunStarted {
        /// Its id.
        run: String,
        /// Whose.
        #[serde(flatten)]
        by: By,
        /// What is run.
        #[serde(flatten)]
        program: Program,
    },
    /// It is over.
    RunEnded {
        /// Its id.
        run: String,
        /// Whose.
        #[serde(flatten)]
        by: By,
        /// What was run.
        #[serde(flatten)]
        program: Program,
        /// How it ended: a status, or why it did not begin.
        status: &'static str,
        /// Processor time, if it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cpu_ms: Option<u64>,
        /// Elapsed time of the program.
        #[serde(skip_serializing_if = "Option::is_none")]
        wall_ms: Option<u64>,
        /// What it did in the network of listed hosts, if it had that.
        #[serde(skip_serializing_if = "Option::is_none")]
        reached: Option<NetworkReport>,
    },
    /// A file was stored.
    FileUploaded {
        /// By whom, and where.
        #[serde(flatten)]
        change: Change,
        /// Its name.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// A folder was made.
    FolderMade {
        /// By whom, and where.
        #[serde(flatten)]
        change: Change,
        /// Its name.
        name: String,
    },
    /// A file, or a folder with all that was in it, was deleted.
    FileDeleted {
        /// By whom, and where.
        #[serde(flatten)]
        change: Change,
        /// Its name.
        name: String,
    },
    /// A file or a folder has another name.
    FileRenamed {
        /// By whom, and where.
        #[serde(flatten)]
        change: Change,
        /// The name that it had.
        name: String,
        /// The one that it has.
        new_name: String,
    },
    /// Somebody was asked for hosts that are not listed.
    HostsAsked {
        /// By whose program, and where.
        #[serde(flatten)]
        change: Change,
        /// The hosts.
        hosts: Vec<String>,
        /// Whether they were allowed.
        allowed: bool,
    },
    /// A client was let in for somebody who has pasted a token.
    LoginGranted {
        /// Whose token it is.
        #[serde(flatten)]
        subject: Subject,
        /// What the client calls itself.
        client: String,
        /// Where its user was sent.
        redirect_host: String,
    },
    /// What a client was let in for is over.
    LoginEnded {
        /// Whose token it was, if there still is such a token.
        #[serde(flatten)]
        subject: Option<Subject>,
        /// `revoked`, or what came twice: `code_replayed`, `refresh_token_replayed`.
        reason: &'static str,
    },
    /// A conversation was deleted.
    ConversationDeleted {
        /// By whom, and which.
        #[serde(flatten)]
        change: Change,
    },
    /// Packages were installed or taken back.
    PackagesInstalled {
        /// By whom, and where.
        #[serde(flatten)]
        change: Change,
        /// For programs of which language.
        language: String,
        /// How many were asked for.
        count: usize,
        /// Those that were asked for, as they were.
        packages: Vec<String>,
        /// Those that were taken back.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        removed: Vec<String>,
    },
    /// The operator deleted a conversation.
    AdminConversationDeleted {
        /// How.
        #[serde(flatten)]
        by: ByOperator,
        /// Whose it was.
        tenant: String,
        /// Which, by the first digits of its key.
        conversation: String,
        /// Whether its caller went away meanwhile, so that it may have happened or not.
        #[serde(skip_serializing_if = "is_not")]
        unsure: bool,
    },
    /// The operator cancelled a run.
    AdminRunCancelled {
        /// How.
        #[serde(flatten)]
        by: ByOperator,
        /// Its id.
        run: String,
        /// Whose it was.
        #[serde(flatten)]
        owner: Subject,
        /// Of which conversation, by the first digits of its key.
        conversation: String,
    },
    /// Events that could not be written.
    EventsLost {
        /// How many.
        count: u64,
    },
    /// What is between the line before and this one was cut off while it was written.
    LineTorn {
        /// SHA-256 of that text.
        torn_sha256: String,
        /// Its bytes.
        bytes: u64,
    },
}

/// A caller, by what tells callers apart and reveals no token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subject {
    /// To whom it belongs.
    tenant: String,
    /// A tag, the same as long as the token has the same name.
    #[serde(rename = "subject")]
    tag: String,
    /// The name of its token, if that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// A caller and its way in.
#[derive(Clone, Debug, Serialize)]
pub struct By {
    #[serde(flatten)]
    subject: Subject,
    via: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_version: Option<String>,
}

/// The operator, and its way in.
#[derive(Clone, Debug, Serialize)]
pub struct ByOperator {
    via: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_version: Option<String>,
}

/// A program, without its code.
#[derive(Clone, Debug, Serialize)]
pub struct Program {
    conversation: String,
    language: String,
    code_sha256: String,
    #[serde(skip_serializing_if = "is_not")]
    network: bool,
}

/// A change of a conversation.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    #[serde(flatten)]
    by: By,
    conversation: String,
    /// Whether its caller went away meanwhile, so that it may have happened or not.
    #[serde(skip_serializing_if = "is_not")]
    unsure: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_not(flag: &bool) -> bool {
    !flag
}

/// A word of a caller's, shortened.
pub fn kept(word: &str) -> String {
    word.chars().take(MAX_WORD).collect()
}

impl Subject {
    /// A caller.
    pub fn of(caller: &Principal) -> Self {
        let mut tag = caller.tag();
        tag.truncate(TAG_DIGITS);
        Self {
            tenant: caller.tenant().name().to_owned(),
            tag,
            token: caller.token_name().map(ToString::to_string),
        }
    }

    /// The tag.
    pub fn tag(&self) -> &str {
        &self.tag
    }
}

impl By {
    /// Who called.
    pub fn of(origin: &Origin) -> Self {
        let (client, client_version) = words(origin.client.as_ref());
        Self {
            subject: Subject::of(&origin.caller),
            via: origin.via.clone().into_owned(),
            client,
            client_version,
        }
    }
}

impl ByOperator {
    /// The operator who called.
    pub fn of(operator: &Operator) -> Self {
        let (client, client_version) = words(operator.client.as_ref());
        Self {
            via: operator.via.clone().into_owned(),
            address: operator.address.map(|address| address.to_canonical()),
            client,
            client_version,
        }
    }
}

/// Name and version of a client, as far as it says them.
fn words(client: Option<&Client>) -> (Option<String>, Option<String>) {
    let version = client.map(|client| client.version.clone());
    let version = version.filter(|version| !version.is_empty());
    (client.map(|client| client.name.clone()), version)
}

impl Program {
    /// A program of a conversation.
    pub fn of(conversation: &Conversation, language: &str, code: &str, network: bool) -> Self {
        Self {
            conversation: conversation.key().short().to_owned(),
            language: kept(language),
            code_sha256: hex::encode(Sha256::digest(code.as_bytes())),
            network,
        }
    }
}

impl Change {
    /// A change that a caller makes.
    pub fn of(origin: &Origin, conversation: &Conversation) -> Self {
        Self {
            by: By::of(origin),
            conversation: conversation.key().short().to_owned(),
            unsure: false,
        }
    }
}

impl Event {
    /// The same, when nobody was there to see whether it happened.
    pub(super) fn unsure(mut self) -> Self {
        if let Self::FileUploaded { change, .. }
        | Self::FolderMade { change, .. }
        | Self::FileDeleted { change, .. }
        | Self::FileRenamed { change, .. }
        | Self::ConversationDeleted { change }
        | Self::PackagesInstalled { change, .. } = &mut self
        {
            change.unsure = true;
        }
        if let Self::AdminConversationDeleted { unsure, .. } = &mut self {
            *unsure = true;
        }
        self
    }
}
