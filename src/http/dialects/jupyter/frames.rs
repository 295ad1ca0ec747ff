//! Messages as frames of a WebSocket: JSON in a text, or parts with their offsets where a client offers that.
//!
//! Source: <https://jupyter-server.readthedocs.io/en/latest/developers/websocket-protocols.html>.

use axum::body::Bytes;
use axum::extract::ws;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::message::{Content, Message, Request};

/// What clients call the protocol in which messages are in parts.
pub(super) const V1: &str = "v1.kernel.websocket.jupyter.org";
/// Most parts of a request: it has five, and buffers.
const MAX_PARTS: usize = 64;

/// How messages are put into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// One JSON object in a text.
    Text,
    /// Offsets and parts, little endian.
    Parts,
}

/// A request as it comes in a text.
#[derive(Debug, Deserialize)]
struct Whole {
    #[serde(default)]
    channel: Option<String>,
    header: Box<RawValue>,
    #[serde(default)]
    content: Content,
}

impl Framing {
    /// That of the protocol which was agreed upon.
    pub(super) fn of(protocol: Option<&[u8]>) -> Self {
        if protocol == Some(V1.as_bytes()) {
            Self::Parts
        } else {
            Self::Text
        }
    }

    /// The request in a frame, if it is one.
    pub(super) fn read(self, frame: &[u8]) -> Option<Request> {
        match self {
            Self::Text => {
                let Whole {
                    channel,
                    header,
                    content,
                } = serde_json::from_slice(frame).ok()?;
                Request::new(channel.as_deref().unwrap_or_default(), &header, content)
            }
            Self::Parts => {
                let parts = split(frame)?;
                let [channel, header, _parent, _metadata, content, ..] = *parts else {
                    return None;
                };
                let channel = std::str::from_utf8(channel).ok()?;
                let header: &RawValue = serde_json::from_slice(header).ok()?;
                Request::new(channel, header, serde_json::from_slice(content).ok()?)
            }
        }
    }

    /// A message as a frame.
    pub(super) fn write(self, message: &Message, session: &str) -> ws::Message {
        let header = message.header(session);
        let channel: &str = message.channel.into();
        match self {
            Self::Text => {
                let whole = json!({
                    "msg_id": header["msg_id"],
                    "msg_type": message.kind,
                    "header": header,
                    "parent_header": message.parent,
                    "metadata": {},
                    "content": message.content,
                    "channel": channel,
                    "buffers": [],
                });
                ws::Message::Text(whole.to_string().into())
            }
            Self::Parts => {
                let json = [&header, &message.parent, &json!({}), &message.content];
                let mut parts = vec![channel.as_bytes().to_vec()];
                parts.extend(json.map(|part| part.to_string().into_bytes()));
                ws::Message::Binary(joined(&parts))
            }
        }
    }
}

/// The parts of a frame.
fn split(frame: &[u8]) -> Option<Vec<&[u8]>> {
    let number = |at: usize| {
        let bytes = frame.get(at * 8..at * 8 + 8)?;
        usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    let count = number(0).filter(|count| *count <= MAX_PARTS)?;
    let offsets: Vec<_> = (1..=count).map(number).collect::<Option<_>>()?;
    let ranges = offsets.windows(2);
    ranges.map(|pair| frame.get(pair[0]..pair[1])).collect()
}

/// Parts as one frame.
fn joined(parts: &[Vec<u8>]) -> Bytes {
    let count = parts.len() + 1;
    let mut offset = 8 * (count + 1);
    let mut numbers = vec![count, offset];
    for part in parts {
        offset += part.len();
        numbers.push(offset);
    }
    let head = numbers
        .into_iter()
        .flat_map(|number| (number as u64).to_le_bytes());
    let mut frame: Vec<u8> = head.collect();
    frame.extend(parts.iter().flatten());
    frame.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_read_from_either_frame() {
        let header = json!({ "msg_type": "execute_request", "msg_id": "1" });
        let text =
            json!({ "header": header, "content": { "code": "1" }, "buffers": {} }).to_string();
        let parts = ["shell", &header.to_string(), "{}", "{}", r#"{"code":"1"}"#];
        let parts = joined(&parts.map(|part| part.as_bytes().to_vec()));
        for (framing, frame) in [(Framing::Text, text.as_bytes()), (Framing::Parts, &parts)] {
            let request = framing.read(frame).unwrap();
            assert_eq!(
                (&*request.kind, &*request.content.code, &request.header),
                ("execute_request", "1", &header)
            );
        }
    }

    #[test]
    fn a_message_in_parts_has_them_where_it_says() {
        let header = RawValue::from_string(r#"{"msg_type":"x_request"}"#.to_owned()).unwrap();
        let request = Request::new("shell", &header, Content::default()).unwrap();
        let message = request.reply(json!({ "status": "ok" }));
        let ws::Message::Binary(frame) = Framing::Parts.write(&message, "s") else {
            panic!("not binary")
        };
        let parts = split(&frame).unwrap();
        let seen = [0, 2, 3, 4].map(|at| String::from_utf8_lossy(parts[at]));
        assert_eq!(
            seen.join(" "),
            r#"shell {"msg_type":"x_request"} {} {"status":"ok"}"#
        );
        let header: serde_json::Value = serde_json::from_slice(parts[1]).unwrap();
        assert_eq!(header["msg_type"], "x_reply");
    }

    proptest! {
        #[test]
        fn no_frame_makes_it_panic(frame in proptest::collection::vec(any::<u8>(), 0..200), count in 0_u64..9, offset in 0_u64..200) {
            Framing::Parts.read(&frame);
            Framing::Text.read(&frame);
            let mut frame = frame;
            frame.splice(0..0, [count.to_le_bytes(), offset.to_le_bytes()].concat());
            Framing::Parts.read(&frame);
        }
    }
}
