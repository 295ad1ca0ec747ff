//! PID 1 reads frames: whatever arrives, and however it is split, the result is frames or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_init::{FrameReader, encode_frame};

fuzz_target!(|input: (u8, &[u8])| {
    let (step, bytes) = (usize::from(input.0).max(1), input.1);
    let mut frames = FrameReader::new();
    for piece in bytes.chunks(step) {
        frames.feed(piece);
        while let Ok(Some(frame)) = frames.next_frame() {
            let mut again = FrameReader::new();
            again.feed(&encode_frame(&frame).expect("what was read can be written"));
            assert_eq!(again.next_frame().expect("what was written can be read"), Some(frame));
        }
    }
});
