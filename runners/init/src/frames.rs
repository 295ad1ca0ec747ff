//! Frames: what the server writes to the standard input of PID 1.
//!
//! ```text
//! length (4 bytes, big endian, at most 32 MiB)  one JSON object of that many bytes
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, SocketAddrV4};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// The longest frame, without its length: 32 MiB.
pub const FRAME_MAX: usize = 32 << 20;

/// Where the hatch is in a sandbox that has one: the socket through which listening sockets leave it.
pub const HATCH_PATH: &str = "/.sandbox-hatch";

/// How many sockets can be handed over at a time: as many descriptors as the kernel takes in one message.
pub const SOCKETS_HANDED_MAX: usize = 253;

/// How many addresses a `park` frame may have tried: each is a connection.
pub const MUST_NOT_REACH_MAX: usize = 8;

const HEADER: usize = 4;

/// How much memory a reader keeps between frames.
const KEPT: usize = 64 << 10;

/// What the server asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Frame {
    /// Start the driver and answer `ready`.
    Park(Park),
    /// Run code and answer `end`.
    Run(Run),
    /// Run code in the kernel, which the parked run process becomes, and answer `end`.
    Cell(Cell),
    /// Hand over listening sockets. The answer comes through the hatch.
    Listen(Listen),
    /// Interrupt a cell, or end a run. The only answer is the end of it.
    Interrupt(Interrupt),
    /// Answer `held`, whatever is going on.
    Weigh,
}

impl Frame {
    /// Whether it is about what is going on, so that it does not wait for the end of that.
    fn is_urgent(&self) -> bool {
        matches!(self, Self::Interrupt(_) | Self::Weigh)
    }
}

/// Asks for a parked run process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Park {
    /// The driver's command; empty when the image has none.
    pub driver: Vec<String>,
    /// Added to the image's environment for the driver.
    pub env: BTreeMap<String, String>,
    /// The sandbox ends by itself after this long without a frame.
    pub idle_ms: u64,
    /// Where it must not get through to, if it has the engine's network: PID 1 tries, before it answers.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "few"
    )]
    pub must_not_reach: Vec<SocketAddr>,
}

fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddr>, D::Error> {
    let addresses = Vec::deserialize(deserializer)?;
    if addresses.len() > MUST_NOT_REACH_MAX {
        return Err(D::Error::invalid_length(addresses.len(), &"a few"));
    }
    Ok(addresses)
}

/// Asks for one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// By which an interrupt names it.
    pub number: u64,
    /// The source code.
    pub code: String,
    /// What the program reads from its standard input; `None` when that is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Added to the image's environment for the program.
    pub env: BTreeMap<String, String>,
    /// How long the run may take.
    pub deadline_ms: u64,
    /// Whether to scrub and take another run afterwards.
    pub reuse: bool,
}

/// Asks for one cell: code in an interpreter that stays, with everything that earlier cells left in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// By which an interrupt names it.
    pub number: u64,
    /// The source code.
    pub code: String,
    /// What the program reads from its standard input; `None` when that is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Added to the kernel's environment, where it stays.
    pub env: BTreeMap<String, String>,
    /// After this time the cell is interrupted.
    pub deadline_ms: u64,
    /// How long after an interrupt the kernel may go on before everything is killed.
    pub interrupt_ms: u64,
}

/// Asks for sockets that listen in the sandbox's own network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listen {
    /// That of the run or cell that comes next, and of the answer.
    pub number: u64,
    /// Where connections are taken, in the order in which the sockets are handed over.
    #[serde(deserialize_with = "handable")]
    pub tcp: Vec<SocketAddrV4>,
    /// Where datagrams are taken, by the last socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<SocketAddrV4>,
}

fn handable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddrV4>, D::Error> {
    let addresses = Vec::deserialize(deserializer)?;
    if addresses.len() >= SOCKETS_HANDED_MAX {
        return Err(D::Error::invalid_length(addresses.len(), &"fewer"));
    }
    Ok(addresses)
}

/// What comes through the hatch, with the sockets: the answer to a `listen` frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// That of the frame.
    pub number: u64,
    /// Why there are no sockets, if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Asks for the end of a cell or a run before its deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// That of the cell or run. Any other is ignored: what it was for has already ended.
    pub number: u64,
}

/// Why bytes are not a frame. Quotes none of them.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The announced or needed length is above [`FRAME_MAX`].
    #[error("a frame of {0} bytes is longer than {FRAME_MAX}")]
    TooLong(usize),
    /// Not JSON, not an object with a known `op`, or a field is missing or of the wrong type.
    #[error("malformed frame: {:?} error at line {}, column {}", .0.classify(), .0.line(), .0.column())]
    Malformed(serde_json::Error),
}

/// The frame as bytes to write, length first.
pub fn encode_frame(frame: &Frame) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; HEADER];
    serde_json::to_writer(&mut bytes, frame).map_err(FrameError::Malformed)?;
    let length = bytes.len() - HEADER;
    if length > FRAME_MAX {
        return Err(FrameError::TooLong(length));
    }
    let header = u32::try_from(length).map_err(|_| FrameError::TooLong(length))?;
    bytes[..HEADER].copy_from_slice(&header.to_be_bytes());
    Ok(bytes)
}

/// Takes bytes as they arrive and returns frames.
#[derive(Default)]
pub struct FrameReader {
    buffer: Vec<u8>,
    /// A frame that was read and is not due yet.
    held: Option<Frame>,
}

impl FrameReader {
    /// A reader that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes from the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether [`next_frame`](Self::next_frame) would return a frame or an error rather than ask for more bytes.
    pub fn is_ready(&self) -> bool {
        match self.announced() {
            _ if self.held.is_some() => true,
            None => false,
            Some(length) => length > FRAME_MAX || self.buffer.len() - HEADER >= length,
        }
    }

    /// Takes the next whole frame, if there is one. After an error the stream is lost.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        match self.held.take() {
            None => self.decode(),
            held => Ok(held),
        }
    }

    /// Takes the next whole frame if it is about the run in progress. Any other one waits for
    /// [`next_frame`](Self::next_frame).
    pub fn next_urgent(&mut self) -> Result<Option<Frame>, FrameError> {
        match self.next_frame()? {
            Some(urgent) if urgent.is_urgent() => Ok(Some(urgent)),
            other => {
                self.held = other;
                Ok(None)
            }
        }
    }

    fn decode(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(length) = self.announced() else {
            return Ok(None);
        };
        if length > FRAME_MAX {
            return Err(FrameError::TooLong(length));
        }
        let Some(body) = self.buffer.get(HEADER..HEADER + length) else {
            return Ok(None);
        };
        let frame = serde_json::from_slice(body).map_err(FrameError::Malformed);
        self.buffer.drain(..HEADER + length);
        self.buffer.shrink_to(KEPT);
        frame.map(Some)
    }

    /// The length in the header at the front of the buffer.
    fn announced(&self) -> Option<usize> {
        let header = *self.buffer.first_chunk::<HEADER>()?;
        Some(usize::try_from(u32::from_be_bytes(header)).unwrap_or(usize::MAX))
    }
}

impl fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameReader")
            .field("buffered", &self.buffer.len())
            .field("held", &self.held.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(code: &str) -> Frame {
        Frame::Run(Run {
            number: 7,
            code: code.to_owned(),
            stdin: None,
            env: BTreeMap::from([("A".to_owned(), "1".to_owned())]),
            deadline_ms: 1000,
            reuse: true,
        })
    }

    fn cell(code: &str) -> Frame {
        Frame::Cell(Cell {
            number: 7,
            code: code.to_owned(),
            stdin: None,
            env: BTreeMap::new(),
            deadline_ms: 1000,
            interrupt_ms: 2000,
        })
    }

    fn park(addresses: Vec<SocketAddr>) -> Frame {
        Frame::Park(Park {
            driver: Vec::new(),
            env: BTreeMap::new(),
            idle_ms: 1000,
            must_not_reach: addresses,
        })
    }

    fn any_addresses() -> impl Strategy<Value = Vec<SocketAddr>> {
        let address = any::<(std::net::IpAddr, u16)>().prop_map(SocketAddr::from);
        prop::collection::vec(address, 0..=MUST_NOT_REACH_MAX)
    }

    fn interrupt() -> Frame {
        Frame::Interrupt(Interrupt { number: 7 })
    }

    fn framed(body: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn the_wire_form_is_the_one_of_the_protocol() {
        let bytes = encode_frame(&run("x")).unwrap();
        let body =
            r#"{"op":"run","number":7,"code":"x","env":{"A":"1"},"deadlineMs":1000,"reuse":true}"#;
        assert_eq!(bytes, framed(body.as_bytes()));
        let body =
            r#"{"op":"cell","number":7,"code":"x","env":{},"deadlineMs":1000,"interruptMs":2000}"#;
        assert_eq!(encode_frame(&cell("x")).unwrap(), framed(body.as_bytes()));
        let body = r#"{"op":"interrupt","number":7}"#;
        assert_eq!(encode_frame(&interrupt()).unwrap(), framed(body.as_bytes()));
        let listen = Frame::Listen(Listen {
            number: 7,
            tcp: vec!["127.77.0.1:443".parse().unwrap()],
            udp: Some("127.0.0.1:53".parse().unwrap()),
        });
        let body = r#"{"op":"listen","number":7,"tcp":["127.77.0.1:443"],"udp":"127.0.0.1:53"}"#;
        assert_eq!(encode_frame(&listen).unwrap(), framed(body.as_bytes()));
        let body = r#"{"op":"weigh"}"#;
        assert_eq!(
            encode_frame(&Frame::Weigh).unwrap(),
            framed(body.as_bytes())
        );
        let park = r#"{"op":"park","extra":[1],"idleMs":5,"driver":["a","b"],"env":{}}"#;
        let mut reader = FrameReader::new();
        reader.feed(&framed(park.as_bytes()));
        let Some(Frame::Park(mut park)) = reader.next_frame().unwrap() else {
            panic!("not a park frame")
        };
        assert_eq!((park.driver.len(), park.idle_ms), (2, 5));
        assert_eq!(park.must_not_reach, []);
        park.must_not_reach = vec![
            "192.0.2.1:443".parse().unwrap(),
            "[2001:db8::1]:80".parse().unwrap(),
        ];
        let body = r#"{"op":"park","driver":["a","b"],"env":{},"idleMs":5,"mustNotReach":["192.0.2.1:443","[2001:db8::1]:80"]}"#;
        let bytes = encode_frame(&Frame::Park(park)).unwrap();
        assert_eq!(bytes, framed(body.as_bytes()));
    }

    #[test]
    fn only_a_few_addresses_are_tried() {
        for (count, is_frame) in [(MUST_NOT_REACH_MAX, true), (MUST_NOT_REACH_MAX + 1, false)] {
            let addresses = vec![r#""192.0.2.1:443""#; count].join(",");
            let body = format!(
                r#"{{"op":"park","driver":[],"env":{{}},"idleMs":5,"mustNotReach":[{addresses}]}}"#
            );
            let mut reader = FrameReader::new();
            reader.feed(&framed(body.as_bytes()));
            assert_eq!(reader.next_frame().is_ok(), is_frame, "{count}");
        }
    }

    #[test]
    fn what_is_not_about_the_run_waits() {
        let mut reader = FrameReader::new();
        for frame in [interrupt(), Frame::Weigh, run("1"), run("2")] {
            reader.feed(&encode_frame(&frame).unwrap());
        }
        assert_eq!(reader.next_urgent().unwrap(), Some(interrupt()));
        assert_eq!(reader.next_urgent().unwrap(), Some(Frame::Weigh));
        for _ in 0..2 {
            assert_eq!(reader.next_urgent().unwrap(), None);
            assert!(reader.is_ready());
        }
        assert_eq!(reader.next_frame().unwrap(), Some(run("1")));
        assert_eq!(reader.next_frame().unwrap(), Some(run("2")));
        assert_eq!(reader.next_urgent().unwrap(), None);
        assert!(!reader.is_ready());
    }

    #[test]
    fn bad_frames_are_errors_that_quote_nothing() {
        for body in [
            "",
            "[]",
            r#"{"op":"fly"}"#,
            r#"{"op":"run","number":"secret"}"#,
            r#"{"op":"interrupt","number":"secret"}"#,
            r#"{"op":"cell","number":7,"code":"secret","env":{},"deadlineMs":1}"#,
            r#"{"op":"park","driver":"secret","env":{},"idleMs":-1}"#,
            r#"{"op":"park","driver":[],"env":{},"idleMs":1,"mustNotReach":["secret:1"]}"#,
        ] {
            let mut reader = FrameReader::new();
            reader.feed(&framed(body.as_bytes()));
            assert!(reader.is_ready());
            let error = reader.next_frame().unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_length_above_the_cap_is_an_error_before_the_body() {
        let mut reader = FrameReader::new();
        reader.feed(&u32::try_from(FRAME_MAX + 1).unwrap().to_be_bytes());
        assert!(reader.is_ready());
        assert!(matches!(reader.next_frame(), Err(FrameError::TooLong(_))));
        assert!(matches!(
            encode_frame(&run(&"x".repeat(FRAME_MAX))),
            Err(FrameError::TooLong(_))
        ));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_frames(
            codes in prop::collection::vec(".*", 1..4), addresses in any_addresses(), size in 1_usize..40
        ) {
            let frames = codes.iter().flat_map(|code| [run(code), cell(code), interrupt()]);
            let frames: Vec<_> = frames.chain([park(addresses)]).collect();
            let bytes: Vec<_> = frames.iter().flat_map(|frame| encode_frame(frame).unwrap()).collect();
            let mut reader = FrameReader::new();
            let mut seen = Vec::new();
            for chunk in bytes.chunks(size) {
                reader.feed(chunk);
                prop_assert_eq!(reader.is_ready(), {
                    let before = seen.len();
                    while let Some(frame) = reader.next_frame().unwrap() {
                        seen.push(frame);
                    }
                    seen.len() > before
                });
            }
            prop_assert_eq!(seen, frames);
        }

        #[test]
        fn random_bytes_never_panic(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..8)) {
            let mut reader = FrameReader::new();
            for chunk in chunks {
                reader.feed(&chunk);
                let ready = reader.is_ready();
                prop_assert_eq!(ready, !matches!(reader.next_frame(), Ok(None)));
            }
        }
    }
}
