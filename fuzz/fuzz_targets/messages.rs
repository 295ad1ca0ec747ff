//! The server reads messages from PID 1: whatever arrives, and however it is split, the result is messages or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_init::{Message, MessageReader, encode_output, encode_record};

fuzz_target!(|input: (u8, &[u8])| {
    let (step, bytes) = (usize::from(input.0).max(1), input.1);
    let mut messages = MessageReader::new();
    for piece in bytes.chunks(step) {
        messages.feed(piece);
        while let Ok(Some(message)) = messages.next_message() {
            let mut again = Vec::new();
            match &message {
                Message::Output(stream, output) => encode_output(*stream, output, &mut again),
                Message::Record(record) => encode_record(record, &mut again),
            }
            // A message may be empty, which is never written, and its reason longer than what is.
            let mut reader = MessageReader::new();
            reader.feed(&again);
            let read = reader.next_message().expect("what was written can be read");
            let is_shorter = matches!(message, Message::Record(_)) || again.is_empty();
            assert!(is_shorter || read == Some(message));
        }
    }
});
