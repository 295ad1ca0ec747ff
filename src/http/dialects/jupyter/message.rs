//! Messages of Jupyter's protocol, version 5.3: what a client asks, and what it is told.

use std::time::SystemTime;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::kernels::timestamp;

/// The version of the protocol that our messages follow.
pub(super) const PROTOCOL: &str = "5.3";

/// Bytes of the largest header: every message that answers a request has it.
const MAX_HEADER: usize = 8 << 10;

/// What a message is sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Channel {
    /// Requests, one after the other, and their replies.
    Shell,
    /// Requests that are answered at once, and their replies.
    Control,
    /// What everybody may know.
    Iopub,
    /// Questions to the user, of which there are none here.
    Stdin,
}

/// A request of a client's.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) kind: String,
    pub(super) channel: Channel,
    pub(super) content: Content,
    /// Its header, which every message that answers it has as its parent.
    pub(super) header: Value,
}

/// What we read of the content of any request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Content {
    pub(super) code: String,
    pub(super) silent: bool,
    pub(super) stop_on_error: Option<bool>,
    pub(super) cursor_pos: u64,
    pub(super) restart: bool,
}

/// The fields of a request that we read.
#[derive(Debug, Default, Deserialize)]
struct Kind {
    #[serde(default)]
    msg_type: String,
}

impl Request {
    /// A request of these parts. Clients leave the channel out, or name one that requests do not come on.
    pub(super) fn new(channel: &str, header: &RawValue, content: Content) -> Option<Self> {
        if header.get().len() > MAX_HEADER {
            return None;
        }
        let header: Value = serde_json::from_str(header.get()).ok()?;
        let Kind { msg_type } = Kind::deserialize(&header).unwrap_or_default();
        (!msg_type.is_empty()).then(|| Self {
            kind: msg_type,
            channel: channel.parse().unwrap_or(Channel::Shell),
            content,
            header,
        })
    }

    /// A message on `iopub` that this request has brought about.
    pub(super) fn publish(&self, kind: &'static str, content: Value) -> Message {
        Message {
            kind: kind.to_owned(),
            channel: Channel::Iopub,
            parent: self.header.clone(),
            content,
        }
    }

    /// `busy` before all else, and `idle` after it.
    pub(super) fn status(&self, state: &'static str) -> Message {
        self.publish("status", json!({ "execution_state": state }))
    }

    /// Its reply.
    pub(super) fn reply(&self, content: Value) -> Message {
        let name = self.kind.strip_suffix("_request").unwrap_or(&self.kind);
        Message {
            kind: format!("{name}_reply"),
            channel: self.channel,
            parent: self.header.clone(),
            content,
        }
    }
}

/// A message to a client.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) kind: String,
    pub(super) channel: Channel,
    pub(super) parent: Value,
    pub(super) content: Value,
}

impl Message {
    /// What shows a client that waits that the kernel is alive. It answers nothing.
    pub(super) fn sign_of_life() -> Self {
        Self {
            kind: "status".to_owned(),
            channel: Channel::Iopub,
            parent: json!({}),
            content: json!({ "execution_state": "busy" }),
        }
    }

    /// Its header, as a message of this session.
    pub(super) fn header(&self, session: &str) -> Value {
        json!({
            "msg_id": hex::encode(rand::random::<[u8; 16]>()),
            "msg_type": self.kind,
            "username": "",
            "session": session,
            "date": timestamp(SystemTime::now()),
            "version": PROTOCOL,
        })
    }
}
