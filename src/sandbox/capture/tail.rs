//! The last of what a program printed beyond its limit, pure: whoever looks at a long output wants to see how it ends.

use std::collections::VecDeque;

use crate::executor::Stream;

/// Bytes that are kept, of both streams together.
pub(super) const MOST: usize = 16 << 10;
/// And changes between the streams.
const MOST_PIECES: usize = 500;

/// Pieces in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail {
    pieces: VecDeque<(Stream, Vec<u8>)>,
    bytes: usize,
}

impl Tail {
    /// Adds what had no room, in place of what came earliest.
    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(MOST)..];
        self.bytes += last.len();
        match self.pieces.back_mut() {
            Some((same, piece)) if *same == stream && piece.len() < MOST => {
                piece.extend_from_slice(last);
            }
            _ if last.is_empty() => {}
            _ => self.pieces.push_back((stream, last.to_vec())),
        }
        if self.pieces.len() > MOST_PIECES
            && let Some((_, first)) = self.pieces.pop_front()
        {
            self.bytes -= first.len();
        }
        while self.bytes > MOST
            && let Some((_, first)) = self.pieces.front_mut()
        {
            let gone = (self.bytes - MOST).min(first.len());
            self.bytes -= gone;
            if gone == first.len() {
                self.pieces.pop_front();
            } else {
                first.drain(..gone);
            }
        }
    }

    /// What is kept, from the beginning of a line on if there is one, so that no line seems to be whole that is not.
    pub(super) fn pieces(&self) -> Vec<(Stream, Vec<u8>)> {
        let mut pieces: Vec<_> = self.pieces.iter().cloned().collect();
        if self.bytes == MOST
            && let Some((_, first)) = pieces.first_mut()
            && let Some(end) = first.iter().position(|byte| *byte == b'\n')
        {
            first.drain(..=end);
        }
        pieces.retain(|(_, bytes)| !bytes.is_empty());
        pieces
    }

    /// Bytes of memory that this takes.
    pub(super) fn size(&self) -> usize {
        self.pieces.iter().map(|(_, bytes)| bytes.capacity()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tail: &Tail) -> String {
        let pieces = tail.pieces().into_iter();
        let pieces =
            pieces.map(|(stream, bytes)| format!("{stream:?} {}", String::from_utf8_lossy(&bytes)));
        pieces.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn little_is_kept_as_it_came() {
        let mut tail = Tail::default();
        assert_eq!(text(&tail), "");
        tail.push(Stream::Stdout, b"");
        tail.push(Stream::Stdout, b"a\n");
        tail.push(Stream::Stdout, b"b\n");
        tail.push(Stream::Stderr, b"c\n");
        assert_eq!(text(&tail), "Stdout a\nb\n, Stderr c\n");
    }

    #[test]
    fn the_last_lines_are_kept_of_much() {
        let mut tail = Tail::default();
        for number in 0..100_000 {
            let stream = [Stream::Stdout, Stream::Stderr][number / 99_990];
            tail.push(stream, format!("{number}\n").as_bytes());
            assert!(tail.size() < 4 * MOST, "{}", tail.size());
        }
        let kept = text(&tail);
        let lines: Vec<_> = kept.split('\n').collect();
        let first: usize = lines[0].strip_prefix("Stdout ").unwrap().parse().unwrap();
        assert!((97_000..97_300).contains(&first), "{first}");
        assert!(kept.ends_with(
            "99989\n, Stderr 99990\n99991\n99992\n99993\n99994\n99995\n99996\n99997\n99998\n99999\n"
        ));
    }

    #[test]
    fn many_changes_cost_no_more() {
        let mut tail = Tail::default();
        for number in 0..10_000 {
            tail.push([Stream::Stdout, Stream::Stderr][number % 2], b"x");
        }
        assert_eq!(tail.pieces().len(), MOST_PIECES);
    }

    #[test]
    fn one_large_piece_is_cut_to_its_end() {
        let mut tail = Tail::default();
        tail.push(Stream::Stdout, b"early");
        tail.push(
            Stream::Stdout,
            &[b"x".repeat(2 * MOST), b"end".to_vec()].concat(),
        );
        let pieces = tail.pieces();
        assert_eq!((pieces.len(), pieces[0].1.len()), (1, MOST));
        assert!(pieces[0].1.ends_with(b"xend"));
    }
}
