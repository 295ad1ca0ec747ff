//! Which byte of the output came from which stream, pure.
//!
//! One bit for each byte, instead of a position for each change: a program that changes streams after every byte costs
//! no more than one that never does.

use crate::executor::Stream;

const BITS: usize = u64::BITS as usize;

/// The streams of bytes in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    /// Set for standard error. Unused bits of the last word are like that of the last byte.
    words: Vec<u64>,
    length: usize,
}

impl Sources {
    /// Adds `count` bytes, all of one stream.
    pub(super) fn extend(&mut self, stream: Stream, count: usize) {
        let (bits, begun) = (bits(stream), self.length % BITS);
        if begun > 0
            && let Some(last) = self.words.last_mut()
        {
            let over = u64::MAX << begun;
            *last = (*last & !over) | (bits & over);
        }
        self.length += count;
        self.words.resize(self.length.div_ceil(BITS), bits);
    }

    /// The stream of the byte at `from`, and where its piece of that stream ends.
    pub(super) fn piece(&self, from: usize) -> Option<(Stream, usize)> {
        if from >= self.length {
            return None;
        }
        let (first, skipped) = (from / BITS, from % BITS);
        let stream = match self.words[first] >> skipped & 1 {
            0 => Stream::Stdout,
            _ => Stream::Stderr,
        };
        let mut counts = u64::MAX << skipped;
        for (index, word) in self.words.iter().enumerate().skip(first) {
            let others = (word ^ bits(stream)) & counts;
            if others != 0 {
                return Some((stream, index * BITS + others.trailing_zeros() as usize));
            }
            counts = u64::MAX;
        }
        Some((stream, self.length))
    }

    /// Bytes of memory that this takes.
    pub(super) fn size(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Gives unused memory back.
    pub(super) fn shrink(&mut self) {
        self.words.shrink_to_fit();
    }
}

/// A word for bytes of this stream.
const fn bits(stream: Stream) -> u64 {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_byte_is_found_again(turns in prop::collection::vec((any::<bool>(), 0_usize..200), 0..20)) {
            let (mut sources, mut expected) = (Sources::default(), Vec::new());
            for (is_error, count) in turns {
                let stream = if is_error { Stream::Stderr } else { Stream::Stdout };
                sources.extend(stream, count);
                expected.resize(expected.len() + count, stream);
            }
            for (from, stream) in expected.iter().enumerate() {
                let length = expected[from..].iter().take_while(|other| *other == stream).count();
                prop_assert_eq!(sources.piece(from), Some((*stream, from + length)));
            }
            prop_assert_eq!(sources.piece(expected.len()), None);
        }
    }
}
