//! Reads what a client has sent into messages that rmcp takes, for every transport: what has one meaning is mended
//! here, once for all of them.

use std::borrow::Cow;

use axum::body::Bytes;
use rmcp::model::{ClientJsonRpcMessage, RequestId};
use serde_json::Value;
use serde_json::value::RawValue;

use super::envelope::{Envelope, EnvelopeError, Fields, invalid};
use super::mend;

/// Messages that may come at once. Each may be a run.
const MAX_BATCH: usize = 100;
/// What some programs put before any text, and JSON does not allow.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Where a message of the newest revision names it.
const REVISION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// What came in one piece.
#[derive(Debug)]
pub(super) enum Incoming {
    One(Message),
    /// Each of these is answered as if it had come alone.
    Batch(Vec<Result<Message, EnvelopeError>>),
}

/// A message whose outer form is good.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) envelope: Envelope,
    /// The whole message as rmcp takes it.
    pub(super) text: Bytes,
}

/// Reads one message, or several where the client may send them at once.
pub(super) fn read(text: Bytes, has_batches: bool) -> Result<Incoming, EnvelopeError> {
    let text = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => text.slice_ref(rest),
        None => text,
    };
    // The whole text first, so that a mistake anywhere in it is a parse error.
    let value: &RawValue =
        serde_json::from_slice(&text).map_err(|error| not_json(&text, &error))?;
    if !value.get().starts_with('[') {
        return Message::read(&text.slice_ref(value.get().as_bytes())).map(Incoming::One);
    }
    if !has_batches {
        return Err(EnvelopeError::NoBatches);
    }
    let parts: Vec<&RawValue> = serde_json::from_str(value.get())
        .map_err(|error| EnvelopeError::Parse(error.to_string()))?;
    match parts.len() {
        0 => return Err(invalid(None, "a batch has at least one message")),
        1..=MAX_BATCH => {}
        count => return Err(EnvelopeError::LargeBatch(count, MAX_BATCH)),
    }
    let read = |part: &&RawValue| {
        let message = Message::read(&text.slice_ref(part.get().as_bytes()))?;
        if message.envelope.method == "initialize" {
            let id = message.id_as_json();
            return Err(invalid(id, "initialize must be sent alone: not in a batch"));
        }
        Ok(message)
    };
    Ok(Incoming::Batch(parts.iter().map(read).collect()))
}

impl Incoming {
    /// All messages in rmcp's types, if all of them can be taken.
    pub(super) fn parse(self) -> Result<Vec<ClientJsonRpcMessage>, EnvelopeError> {
        match self {
            Self::One(message) => Ok(vec![message.parse()?]),
            Self::Batch(messages) => messages
                .into_iter()
                .map(|message| message?.parse())
                .collect(),
        }
    }
}

/// Says why a text is not JSON. That it is in another encoding is hard to see otherwise.
fn not_json(text: &[u8], error: &serde_json::Error) -> EnvelopeError {
    EnvelopeError::Parse(match text {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => "it is in UTF-16: send it in UTF-8".to_owned(),
        _ if std::str::from_utf8(text).is_err() => "it is not in UTF-8".to_owned(),
        _ => error.to_string(),
    })
}

impl Message {
    /// Reads a message as far as needed, and mends it.
    fn read(text: &Bytes) -> Result<Self, EnvelopeError> {
        let no_object = || invalid(None, "a message is one JSON object without repeated fields");
        // A list of the fields' values would be taken for them.
        if !text.starts_with(b"{") {
            return Err(no_object());
        }
        let text = match mend::with_objects(text) {
            Cow::Borrowed(_) => text.clone(),
            Cow::Owned(mended) => mended.into(),
        };
        let mut fields: Fields<'_> = serde_json::from_slice(&text).map_err(|_| no_object())?;
        let nameless = mend::nameless(&mut fields);
        let envelope = fields.envelope()?;
        let params = mend::params(&envelope.method, fields.params)
            .map_err(|error| error.of(envelope.id_as_json()))?;
        if let Some(params) = &params {
            fields.params = Some(params);
        }
        fields.check_params(&envelope)?;
        let mended = (nameless || params.is_some())
            .then(|| serde_json::to_vec(&fields))
            .transpose()
            .map_err(|error| EnvelopeError::Parse(error.to_string()))?;
        let text = mended.map_or_else(|| text.clone(), Bytes::from);
        Ok(Self { envelope, text })
    }

    /// The message in rmcp's types.
    pub(super) fn parse(&self) -> Result<ClientJsonRpcMessage, EnvelopeError> {
        serde_json::from_slice(&self.text).map_err(|_| self.unrepresentable())
    }

    /// Whether it names the revision that it is written in.
    pub(super) fn names_revision(&self) -> bool {
        let message: Value = serde_json::from_slice(&self.text).unwrap_or_default();
        names_revision(&message["params"])
    }

    pub(super) fn id(&self) -> Option<&RequestId> {
        self.envelope.id.as_ref()
    }

    pub(super) fn id_as_json(&self) -> Option<Value> {
        self.envelope.id_as_json()
    }

    /// Why a message with the outer form cannot be taken: JSON can express more than a value can hold.
    pub(super) fn unrepresentable(&self) -> EnvelopeError {
        let reason: Cow<'static, str> = match serde_json::from_slice::<Value>(&self.text) {
            Err(error) => format!(
                "{error}: half of a surrogate pair, numbers beyond 64 bits and more than 127 levels are not taken"
            )
            .into(),
            Ok(_) => "its parts are not of the types that the protocol asks for".into(),
        };
        EnvelopeError::NotHeld {
            id: self.id_as_json(),
            reason: reason.into_owned(),
        }
    }
}

/// Whether the parameters name the revision that they are written in.
pub(super) fn names_revision(params: &Value) -> bool {
    !params["_meta"][REVISION_KEY].is_null()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: &str) -> String {
        match super::read(Bytes::copy_from_slice(body.as_bytes()), true) {
            Ok(Incoming::One(message)) => message.envelope.method,
            Ok(Incoming::Batch(messages)) => {
                let read = messages.into_iter().map(|message| match message {
                    Ok(message) => message.envelope.method,
                    Err(error) => error.to_string(),
                });
                read.collect::<Vec<_>>().join("; ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn good_messages_pass() {
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), "ping");
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            "notifications/initialized"
        );
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":"a","result":{}}"#), "");
    }

    #[test]
    fn messages_that_come_at_once_are_read_one_by_one() {
        insta::assert_snapshot!(read(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},7,[],{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}]"#), @"ping; a message is one JSON object without repeated fields; a message is one JSON object without repeated fields; notifications/initialized; initialize must be sent alone: not in a batch");
        insta::assert_snapshot!(read(&format!("[{}7]", "7,".repeat(MAX_BATCH))), @"the batch has 101 messages: send at most 100 at once");
        let alone = super::read(Bytes::from_static(b"[7]"), false);
        insta::assert_snapshot!(alone.unwrap_err(), @"batches are not supported in this revision of the protocol: send one message at a time, or speak revision 2025-03-26");
    }

    #[test]
    fn bad_messages_say_why() {
        insta::assert_snapshot!(read("{"), @"the message is not valid JSON: EOF while parsing an object at line 1 column 1");
        insta::assert_snapshot!(read("[]"), @"a batch has at least one message");
        insta::assert_snapshot!(read("1"), @"a message is one JSON object without repeated fields");
        insta::assert_snapshot!(read(r#"{"id":1,"method":"ping"}"#), @r#"jsonrpc is missing or wrong: it must be "2.0""#);
        insta::assert_snapshot!(read(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), @"id must be a string or a whole number of at most 64 bits");
        insta::assert_snapshot!(read(r#"{"jsonrpc":"2.0","id":1,"method":7}"#), @"method must be a string");
        insta::assert_snapshot!(read(r#"{"jsonrpc":"2.0","id":1}"#), @"method is missing");
        insta::assert_snapshot!(read(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#), @"params must be an object");
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = super::read(body.into(), true);
        }
    }
}
