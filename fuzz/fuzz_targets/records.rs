//! The server looks for records in a program's output. Whatever the program prints, every byte comes through, and only
//! the right nonce makes a record.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_init::{Nonce, RecordScanner};

fuzz_target!(|input: (u8, &[u8])| {
    let (step, bytes) = (usize::from(input.0).max(1), input.1);
    let nonce = Nonce::from_random([7; 16]);
    let mut scanner = RecordScanner::new(&nonce);
    let mut output = Vec::new();
    for piece in bytes.chunks(step) {
        let scanned = scanner.push(piece);
        output.extend(scanned.output);
        if scanned.record.is_some() {
            let mut windows = bytes.windows(Nonce::LEN);
            assert!(windows.any(|window| window == nonce.as_bytes()), "a record has the nonce");
            return;
        }
    }
    output.extend(scanner.finish());
    assert_eq!(output, bytes, "without a record, what comes in goes out");
});
