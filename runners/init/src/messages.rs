//! Messages: what PID 1 writes to its standard output, which no program has.
//!
//! ```text
//! kind (1 byte: 1 standard output, 2 standard error, 3 record)
//! length (4 bytes, big endian, at most 64 KiB)  that many bytes: of output, each with its highest bit inverted, or one
//!                                               JSON object
//! ```
//!
//! Whoever passes a container's output on may look for lines in it: nodes of a cluster write each of them to a log, and
//! take 20 times as long for text in short lines as for bytes without any. Text that is inverted has none.

use crate::Record;

/// The most bytes in one message, without its kind and length: 64 KiB.
pub const PAYLOAD_MAX: usize = 64 << 10;

const HEADER: usize = 5;

const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const RECORD: u8 = 3;

/// What is inverted of each byte of output.
const INVERTED: u8 = 0x80;

/// Which of a program's two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Its usual name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// One message from PID 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Bytes that the run's processes have written. Not a line: they may be split anywhere.
    Output(Stream, &'a [u8]),
    /// What PID 1 itself reports.
    Record(Record),
}

/// Why bytes are not a message. PID 1 writes no such bytes.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// No kind of message begins like that.
    #[error("a message of unknown kind {0}")]
    Kind(u8),
    /// The length is above [`PAYLOAD_MAX`].
    #[error("a message of {0} bytes is longer than {PAYLOAD_MAX}")]
    TooLong(usize),
    /// A record that is none.
    #[error("malformed record")]
    Malformed(#[source] serde_json::Error),
}

/// Appends output to `bytes`, in as many messages as it needs.
pub fn encode_output(stream: Stream, output: &[u8], bytes: &mut Vec<u8>) {
    let kind = match stream {
        Stream::Stdout => STDOUT,
        Stream::Stderr => STDERR,
    };
    for payload in output.chunks(PAYLOAD_MAX) {
        bytes.extend_from_slice(&header(kind, payload.len()));
        bytes.extend(payload.iter().map(|byte| byte ^ INVERTED));
    }
}

/// Appends a record to `bytes`. A long reason in it is cut.
pub fn encode_record(record: &Record, bytes: &mut Vec<u8>) {
    let payload = record.to_json();
    bytes.extend_from_slice(&header(RECORD, payload.len()));
    bytes.extend_from_slice(&payload);
}

fn header(kind: u8, length: usize) -> [u8; HEADER] {
    // Callers stay far below what four bytes can count.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let [a, b, c, d] = length.to_be_bytes();
    [kind, a, b, c, d]
}

/// Takes bytes as they arrive and returns messages.
#[derive(Debug, Default)]
pub struct MessageReader {
    buffer: Vec<u8>,
    /// How much of the buffer was returned already.
    taken: usize,
}

impl MessageReader {
    /// A reader that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes from the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole message, if there is one. After an error the stream is lost.
    ///
    /// # Errors
    /// What has come is no message.
    pub fn next_message(&mut self) -> Result<Option<Message<'_>>, MessageError> {
        let rest = &mut self.buffer[self.taken..];
        let Some((header, rest)) = rest.split_first_chunk_mut::<HEADER>() else {
            return Ok(None);
        };
        let [kind, length @ ..] = *header;
        if !matches!(kind, STDOUT | STDERR | RECORD) {
            return Err(MessageError::Kind(kind));
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > PAYLOAD_MAX {
            return Err(MessageError::TooLong(length));
        }
        let Some(payload) = rest.get_mut(..length) else {
            return Ok(None);
        };
        self.taken += HEADER + length;
        let stream = match kind {
            STDOUT => Stream::Stdout,
            STDERR => Stream::Stderr,
            _ => {
                let record = serde_json::from_slice(payload);
                return record
                    .map(|record| Some(Message::Record(record)))
                    .map_err(MessageError::Malformed);
            }
        };
        for byte in payload.iter_mut() {
            *byte ^= INVERTED;
        }
        Ok(Some(Message::Output(stream, payload)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::records::tests::any_record;

    fn encoded(message: &Message<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        match message {
            Message::Output(stream, output) => encode_output(*stream, output, &mut bytes),
            Message::Record(record) => encode_record(record, &mut bytes),
        }
        bytes
    }

    fn any_encoded() -> impl Strategy<Value = Vec<u8>> {
        let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
        let output = prop::collection::vec(any::<u8>(), 1..200);
        prop_oneof![
            (stream, output)
                .prop_map(|(stream, output)| encoded(&Message::Output(stream, &output))),
            any_record().prop_map(|record| encoded(&Message::Record(record))),
        ]
    }

    #[test]
    fn the_wire_form_is_the_one_of_the_protocol() {
        let output = Message::Output(Stream::Stderr, b"err");
        assert_eq!(encoded(&output), b"\x02\0\0\0\x03\xe5\xf2\xf2");
        let record = Message::Record(Record::Clean(Ok(())));
        assert_eq!(encoded(&record), b"\x03\0\0\0\x0e{\"clean\":true}");
    }

    #[test]
    fn long_output_is_several_messages() {
        let long = vec![b'x'; 2 * PAYLOAD_MAX + 1];
        let output = Message::Output(Stream::Stdout, &long);
        let mut reader = MessageReader::new();
        reader.feed(&encoded(&output));
        let mut lengths = Vec::new();
        while let Some(Message::Output(Stream::Stdout, bytes)) = reader.next_message().unwrap() {
            lengths.push(bytes.len());
        }
        assert_eq!(lengths, [PAYLOAD_MAX, PAYLOAD_MAX, 1]);
    }

    #[test]
    fn what_pid_1_never_writes_is_an_error() {
        for bytes in [
            &b"\0\0\0\0\x01x"[..],
            b"\x04\0\0\0\0",
            b"\x04\0\0\0\x0e{\"clean\":true}",
            b"\x01\0\x01\0\x01",
            b"\x03\0\0\0\0",
            b"\x03\0\0\0\x02{}",
        ] {
            let mut reader = MessageReader::new();
            reader.feed(bytes);
            assert!(reader.next_message().is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_messages(messages in prop::collection::vec(any_encoded(), 1..6), size in 1_usize..300) {
            let mut reader = MessageReader::new();
            let mut seen = Vec::new();
            for chunk in messages.concat().chunks(size) {
                reader.feed(chunk);
                while let Some(message) = reader.next_message().unwrap() {
                    seen.push(encoded(&message));
                }
            }
            prop_assert_eq!(seen, messages);
        }

        #[test]
        fn random_bytes_never_panic(chunks in prop::collection::vec(prop::collection::vec(0_u8..8, 0..64), 0..8)) {
            let mut reader = MessageReader::new();
            for chunk in chunks {
                reader.feed(&chunk);
                while let Ok(Some(_)) = reader.next_message() {}
            }
        }
    }
}
