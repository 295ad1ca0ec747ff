//! What a program printed, up to a limit per stream, readable while it still runs, and the last of what went beyond it.
//!
//! Writers never wait, and readers hold nothing: a slow reader looks at the same buffer later.
//!
//! When a stream breaks off within a character, the beginning of that is held back until the rest has come, so that
//! output of the other stream does not end up in the middle of it.

mod sources;
mod tail;

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use self::sources::Sources;
use self::tail::Tail;
use crate::executor::Stream;

/// A run that writes this many times its limit, both streams together, is not meant to be read, and is stopped.
const FLOOD_FACTOR: u64 = 16;

/// The output of one run, shared between the run and those who read it.
#[derive(Debug)]
pub struct Capture {
    limit: usize,
    captured: Mutex<Captured>,
    /// Bytes seen so far: changes wake readers.
    seen: watch::Sender<u64>,
}

/// Output in the order in which it came. A clone shares what was kept so far.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// Copied by a writer that has more to keep while somebody still reads it.
    kept: Arc<Kept>,
    /// The last of what was left out.
    tail: Arc<Tail>,
    /// An incomplete last character of each stream: at most three bytes.
    begun: [Vec<u8>; 2],
    /// The run is over: no rest of a character is waited for.
    ended: bool,
    /// Bytes of standard output.
    pub stdout: Counter,
    /// Bytes of standard error.
    pub stderr: Counter,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    /// Those of both streams.
    bytes: Vec<u8>,
    /// Which stream each of them is from.
    sources: Sources,
}

/// How much of a stream was kept and how much was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Bytes kept that can be read.
    pub kept: usize,
    /// Bytes left out because the limit was reached.
    pub dropped: u64,
}

impl Capture {
    /// Keeps `limit` bytes of each stream.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            captured: Mutex::default(),
            seen: watch::Sender::new(0),
        }
    }

    /// Adds what was printed.
    pub(crate) fn push(&self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.captured.lock().push(self.limit, stream, bytes);
        self.seen.send_modify(|seen| *seen += bytes.len() as u64);
    }

    /// Ends the run: what has begun is as complete as it will ever be.
    pub(crate) fn finish(&self) {
        self.captured.lock().finish();
        self.seen.send_modify(|_| {});
    }

    /// The output so far, as it is now.
    pub fn snapshot(&self) -> Captured {
        self.captured.lock().clone()
    }

    /// Up to `max_bytes` bytes from `offset` on, of one stream or of both in the order in which they came.
    pub fn read(&self, stream: Option<Stream>, offset: usize, max_bytes: usize) -> Vec<u8> {
        self.captured.lock().read(stream, offset, max_bytes)
    }

    /// The same for both streams, in at most `pieces` pieces, each from one stream.
    pub fn read_apart(
        &self,
        offset: usize,
        max_bytes: usize,
        pieces: usize,
    ) -> Vec<(Stream, Vec<u8>)> {
        self.captured.lock().read_apart(offset, max_bytes, pieces)
    }

    /// How many bytes of both streams can be read.
    pub fn kept(&self) -> usize {
        let captured = self.captured.lock();
        captured.stdout.kept + captured.stderr.kept
    }

    /// Wakes readers: its value is the number of bytes seen so far, kept or not.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.seen.subscribe()
    }

    /// Resolves when the run has written so much that it has to be stopped.
    pub async fn flooded(&self) {
        let limit = (self.limit as u64).saturating_mul(FLOOD_FACTOR);
        let mut seen = self.seen.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = seen.wait_for(|seen| *seen > limit).await;
    }
}

impl Captured {
    fn push(&mut self, limit: usize, stream: Stream, bytes: &[u8]) {
        let ended = self.ended;
        let (counter, begun) = self.of(stream);
        let room = limit - counter.kept - begun.len();
        let accepted = &bytes[..bytes.len().min(room)];
        let rest = &bytes[accepted.len()..];
        counter.dropped += rest.len() as u64;
        let mut next = std::mem::take(begun);
        next.extend_from_slice(accepted);
        // Once the limit is reached, no rest can come.
        if !ended && counter.kept + next.len() < limit {
            *begun = next.split_off(whole_characters(&next));
        }
        self.append(stream, &next);
        if !rest.is_empty() {
            Arc::make_mut(&mut self.tail).push(stream, rest);
        }
    }

    fn of(&mut self, stream: Stream) -> (&mut Counter, &mut Vec<u8>) {
        let [out, err] = &mut self.begun;
        match stream {
            Stream::Stdout => (&mut self.stdout, out),
            Stream::Stderr => (&mut self.stderr, err),
        }
    }

    fn append(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.of(stream).0.kept += bytes.len();
        let kept = Arc::make_mut(&mut self.kept);
        kept.sources.extend(stream, bytes.len());
        kept.bytes.extend_from_slice(bytes);
    }

    fn finish(&mut self) {
        self.ended = true;
        for stream in [Stream::Stdout, Stream::Stderr] {
            let begun = std::mem::take(self.of(stream).1);
            self.append(stream, &begun);
        }
        // It may be kept for long, and nothing more will come.
        let kept = Arc::make_mut(&mut self.kept);
        kept.bytes.shrink_to_fit();
        kept.sources.shrink();
    }

    /// Pieces of consecutive bytes from one stream.
    fn pieces(&self) -> impl Iterator<Item = (Stream, &[u8])> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let (stream, end) = self.kept.sources.piece(from)?;
            let piece = &self.kept.bytes[from..end];
            from = end;
            Some((stream, piece))
        })
    }

    /// All bytes of both streams in the order in which they came.
    pub fn both(&self) -> &[u8] {
        &self.kept.bytes
    }

    /// All bytes of one stream.
    pub fn bytes(&self, stream: Stream) -> Cow<'_, [u8]> {
        let other = match stream {
            Stream::Stdout => self.stderr,
            Stream::Stderr => self.stdout,
        };
        if other.kept == 0 {
            return self.both().into();
        }
        self.read(Some(stream), 0, usize::MAX).into()
    }

    /// The last of what was left out, in pieces, each from one stream.
    pub fn tail(&self) -> Vec<(Stream, Vec<u8>)> {
        self.tail.pieces()
    }

    /// Bytes of memory that all of this takes: those of the output, and an eighth of that.
    pub fn size(&self) -> usize {
        self.kept.bytes.capacity() + self.kept.sources.size() + self.tail.size()
    }

    fn read(&self, stream: Option<Stream>, offset: usize, max_bytes: usize) -> Vec<u8> {
        let (mut skip, mut bytes) = (offset, Vec::new());
        for (from, piece) in self.pieces() {
            if stream.is_some_and(|stream| stream != from) {
                continue;
            }
            let skipped = skip.min(piece.len());
            skip -= skipped;
            let rest = &piece[skipped..];
            bytes.extend_from_slice(&rest[..rest.len().min(max_bytes - bytes.len())]);
            if bytes.len() == max_bytes {
                break;
            }
        }
        bytes
    }

    fn read_apart(&self, offset: usize, max_bytes: usize, pieces: usize) -> Vec<(Stream, Vec<u8>)> {
        let limit = offset.saturating_add(max_bytes).min(self.kept.bytes.len());
        let (mut from, mut found) = (offset, Vec::new());
        while from < limit
            && found.len() < pieces
            && let Some((stream, end)) = self.kept.sources.piece(from)
        {
            let end = end.min(limit);
            found.push((stream, self.kept.bytes[from..end].to_vec()));
            from = end;
        }
        found
    }

    /// One stream as text, with invalid UTF-8 replaced.
    pub fn text(&self, stream: Stream) -> String {
        String::from_utf8_lossy(&self.bytes(stream)).into_owned()
    }
}

/// Where the bytes end without an incomplete last character.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    let lead = bytes[tail..].iter().rposition(|byte| *byte >= 0xc0);
    match lead.map(|at| tail + at) {
        Some(at)
            if std::str::from_utf8(&bytes[at..])
                .is_err_and(|error| error.error_len().is_none()) =>
        {
            at
        }
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(capture: &Capture, stream: Stream, text: &'static str) {
        capture.push(stream, text.as_bytes());
    }

    /// Both streams as text.
    fn interleaved(capture: &Capture) -> String {
        String::from_utf8_lossy(capture.snapshot().both()).into_owned()
    }

    #[test]
    fn each_stream_has_its_own_limit() {
        let capture = Capture::new(4);
        push(&capture, Stream::Stdout, "abc");
        push(&capture, Stream::Stderr, "ERR");
        push(&capture, Stream::Stdout, "defg");
        push(&capture, Stream::Stderr, "!");
        let captured = capture.snapshot();
        assert_eq!(interleaved(&capture), "abcERRd!");
        assert_eq!(captured.text(Stream::Stdout), "abcd");
        assert_eq!(captured.text(Stream::Stderr), "ERR!");
        assert_eq!(
            captured.stdout,
            Counter {
                kept: 4,
                dropped: 3
            }
        );
        assert_eq!(
            captured.stderr,
            Counter {
                kept: 4,
                dropped: 0
            }
        );
    }

    #[test]
    fn pieces_keep_their_order_and_are_read_from_anywhere() {
        let capture = Capture::new(10);
        for (stream, text) in [
            (Stream::Stderr, "e"),
            (Stream::Stdout, "ab"),
            (Stream::Stderr, "f"),
        ] {
            push(&capture, stream, text);
        }
        assert_eq!(interleaved(&capture), "eabf");
        assert_eq!(capture.read(None, 1, 2), b"ab");
        assert_eq!(capture.read(Some(Stream::Stderr), 1, 9), b"f");
        assert_eq!(capture.read(None, 9, 9), b"");
    }

    #[test]
    fn streams_are_told_apart_from_anywhere() {
        let (out, err) = (Stream::Stdout, Stream::Stderr);
        let capture = Capture::new(100);
        for (stream, text) in [(err, "ERR"), (out, "abc"), (err, "!"), (out, "def")] {
            push(&capture, stream, text);
        }
        let read = |offset, max_bytes, pieces| {
            let pieces = capture.read_apart(offset, max_bytes, pieces).into_iter();
            let lines = pieces
                .map(|(stream, bytes)| format!("{stream:?} {}", String::from_utf8_lossy(&bytes)));
            lines.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(
            read(0, 99, 9),
            "Stderr ERR, Stdout abc, Stderr !, Stdout def"
        );
        assert_eq!(read(1, 4, 9), "Stderr RR, Stdout ab");
        assert_eq!(read(3, 99, 2), "Stdout abc, Stderr !");
        assert_eq!(read(9, 99, 9), "Stdout f");
        assert_eq!(
            (read(10, 99, 9), read(99, 1, 9)),
            (String::new(), String::new())
        );
    }

    #[test]
    fn a_character_is_whole_whatever_the_other_stream_says_meanwhile() {
        let (out, err) = (Stream::Stdout, Stream::Stderr);
        let capture = Capture::new(100);
        let kept = |stream, bytes: &[u8]| {
            capture.push(stream, bytes);
            capture.kept()
        };
        assert_eq!(kept(out, b"a\xf0\x9f"), 1);
        assert_eq!(kept(err, b"e\xc3"), 2);
        assert_eq!(kept(out, b"\x98"), 2);
        assert_eq!(kept(err, b"\xa9!"), 5);
        assert_eq!(kept(out, b"\x80b\xc3"), 10);
        assert_eq!(interleaved(&capture), "aeé!😀b");
        // What never becomes whole is there at the end, and readers are notified.
        let mut seen = capture.watch();
        seen.mark_unchanged();
        capture.finish();
        assert!(seen.has_changed().unwrap());
        assert_eq!(interleaved(&capture), "aeé!😀b\u{fffd}");
        assert_eq!(
            capture.snapshot().bytes(out)[..],
            "a😀b\u{c3}".as_bytes()[..7]
        );
        assert_eq!(kept(out, b"\xc3"), 12);
        assert_eq!(*seen.borrow(), 12);
    }

    #[test]
    fn what_waits_for_its_rest_counts_for_the_limit() {
        let capture = Capture::new(4);
        for bytes in [&b"ab\xf0"[..], b"\x9f\x98\x80", b"!"] {
            capture.push(Stream::Stdout, bytes);
        }
        let captured = capture.snapshot();
        assert_eq!(captured.both(), b"ab\xf0\x9f");
        let counted = Counter {
            kept: 4,
            dropped: 3,
        };
        assert_eq!(captured.stdout, counted);
    }

    #[test]
    fn what_is_left_out_copies_nothing() {
        let capture = Capture::new(4);
        push(&capture, Stream::Stdout, "abcd");
        let before = capture.snapshot();
        push(&capture, Stream::Stdout, "e");
        let after = capture.snapshot();
        assert_eq!(before.both().as_ptr(), after.both().as_ptr());
        assert_eq!((before.stdout.dropped, after.stdout.dropped), (0, 1));
    }

    #[test]
    fn turns_after_every_byte_cost_little_more_than_none() {
        let capture = Capture::new(100_000);
        for _ in 0..100_000 {
            push(&capture, Stream::Stdout, "o");
            push(&capture, Stream::Stderr, "e");
        }
        capture.finish();
        assert_eq!(interleaved(&capture), "oe".repeat(100_000));
        let size = capture.snapshot().size();
        assert!(
            (200_000..=200_000 + 200_000 / 8 + 8).contains(&size),
            "{size}"
        );
    }

    #[tokio::test]
    async fn a_flood_is_noticed() {
        let capture = Capture::new(1);
        push(&capture, Stream::Stdout, "0123456789abcdefg");
        capture.flooded().await;
    }
}
