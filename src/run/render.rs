//! What a program printed, as a model reads it: without colours, with progress bars only in their last state, and no
//! longer than the model has patience for. [`screen`] has those that take several lines.
//!
//! All functions here are pure. Offsets always count the bytes as the program wrote them, so that they mean the same
//! during a run and after it.

mod screen;

use std::borrow::Cow;

use crate::sandbox::whole_characters;

const ESCAPE: u8 = 0x1b;
const BACKSPACE: u8 = 0x08;
/// The longest escape sequence that is waited for at the end of a piece. A longer one is shown as it is.
const MAX_ESCAPE: usize = 64;
/// Characters of an answer reserved for saying what was left out.
const NOTE: usize = 200;

/// Bytes as text: without colour codes and other terminal sequences, with only the last state of a line that was
/// overwritten (with carriage returns, backspaces, or a cursor that goes up), and with invalid UTF-8 replaced.
pub fn clean(bytes: &[u8]) -> String {
    pieces(bytes).map(shown).collect()
}

/// Bytes whose text has a known length. Only as much of the text is made as is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    bytes: &'a [u8],
    /// Characters of the whole text.
    pub length: usize,
}

impl<'a> Measured<'a> {
    /// Measures the text of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        let lengths = pieces(bytes).map(|piece| shown(piece).chars().count());
        Self {
            bytes,
            length: lengths.sum(),
        }
    }

    /// The text, as from [`clean`], with at most about `max_chars` characters: head and tail, and between them what
    /// `note` returns for the number of characters left out and the offset in the bytes where they begin.
    pub fn clip(&self, max_chars: usize, note: impl Fn(usize, usize) -> String) -> String {
        if self.length <= max_chars {
            return clean(self.bytes);
        }
        let room = max_chars.saturating_sub(NOTE) / 2;
        let (head, offset) = head(self.bytes, room);
        let tail = tail(self.bytes, room);
        let left_out = self.length - head.chars().count() - tail.chars().count();
        let before = if head.is_empty() || head.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        format!("{head}{before}{}\n{tail}", note(left_out, offset))
    }
}

/// How many of the bytes can be shown now: all except an incomplete character or escape sequence at the end.
pub fn whole(bytes: &[u8]) -> usize {
    let end = whole_characters(bytes);
    let window = end.saturating_sub(MAX_ESCAPE);
    let escape = bytes[window..end].iter().rposition(|byte| *byte == ESCAPE);
    match escape.map(|at| window + at) {
        Some(at) if escape_length(&bytes[at..end]).is_none() => at,
        _ => end,
    }
}

/// Lines, each with its end. Those that are drawn over together are one.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    let mut displays = screen::Displays::default();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        displays.add(line);
    }
    displays.ranges().map(|range| &bytes[range]).collect()
}

/// Whether the cursor may go up somewhere.
fn has_rise(bytes: &[u8]) -> bool {
    bytes.contains(&ESCAPE) && screen::moves(bytes).any(|rows| rows < 0)
}

/// Pieces that end where lines do: all plain lines up to the next one that is not plain, or that one line. Most output
/// is one piece, however many lines it has.
fn pieces(bytes: &[u8]) -> Box<dyn Iterator<Item = &[u8]> + '_> {
    if has_rise(bytes) {
        return Box::new(lines(bytes).into_iter());
    }
    Box::new(level_pieces(bytes))
}

/// The pieces of output in which the cursor never goes up.
fn level_pieces(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let after = |newline: Option<usize>| newline.map(|at| at + 1);
        let is_newline = |byte: &u8| *byte == b'\n';
        let special = bytes
            .iter()
            .position(|byte| is_special(*byte))
            .unwrap_or(bytes.len());
        let plain = if special == bytes.len() {
            special
        } else {
            after(bytes[..special].iter().rposition(is_newline)).unwrap_or(0)
        };
        let end = match plain {
            0 => after(bytes.iter().position(is_newline)).unwrap_or(bytes.len()),
            plain => plain,
        };
        let (piece, rest) = bytes.split_at(end);
        bytes = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Whether a line with this byte is shown differently from how it was written.
fn is_special(byte: u8) -> bool {
    matches!(byte, ESCAPE | b'\r' | BACKSPACE)
}

/// A piece, or a line, as text.
fn shown(piece: &[u8]) -> Cow<'_, str> {
    if !piece.iter().any(|byte| is_special(*byte)) {
        return String::from_utf8_lossy(piece);
    }
    let (line, end) = match piece.strip_suffix(b"\n") {
        Some(line) => (line, "\n"),
        None => (piece, ""),
    };
    if line.iter().any(|byte| matches!(*byte, b'\n' | BACKSPACE)) {
        return screen::drawn(piece).into();
    }
    let plain = without_escapes(line);
    let last_state = plain
        .rsplit(|byte| *byte == b'\r')
        .find(|state| !state.is_empty())
        .unwrap_or_default();
    let mut text = String::from_utf8_lossy(last_state).into_owned();
    text.push_str(end);
    text.into()
}

fn without_escapes(mut line: &[u8]) -> Cow<'_, [u8]> {
    if !line.contains(&ESCAPE) {
        return line.into();
    }
    let mut plain = Vec::with_capacity(line.len());
    while let Some(at) = line.iter().position(|byte| *byte == ESCAPE) {
        plain.extend_from_slice(&line[..at]);
        // One that never ends is not a sequence: only its first byte, which is invisible, is removed.
        let length = escape_length(&line[at..]).unwrap_or(1);
        line = &line[at + length..];
    }
    plain.extend_from_slice(line);
    plain.into()
}

/// The length of the terminal sequence that the bytes begin with (ECMA-48); `None` while its end is missing. Only the
/// first byte of a malformed one counts.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        // Control sequence: parameters, intermediates, a final byte.
        b'[' => {
            let last = bytes[2..]
                .iter()
                .position(|byte| !(0x20..=0x3f).contains(byte))?;
            let ends_well = (0x40..=0x7e).contains(&bytes[2 + last]);
            Some(if ends_well { 3 + last } else { 1 })
        }
        // Strings such as a window's title, ended by BEL or by ESC and a backslash.
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let last = bytes[2..]
                .iter()
                .position(|byte| *byte == 0x07 || *byte == ESCAPE)?;
            match (bytes[2 + last], bytes.get(3 + last)) {
                (0x07, _) => Some(3 + last),
                (_, Some(b'\\')) => Some(4 + last),
                (_, Some(_)) => Some(1),
                (_, None) => None,
            }
        }
        0x20..=0x2f => {
            let last = bytes[1..]
                .iter()
                .position(|byte| !(0x20..=0x2f).contains(byte))?;
            Some(2 + last)
        }
        0x30..=0x7e => Some(2),
        _ => Some(1),
    }
}

/// The first lines with at most `room` characters, and where in the bytes they end. A line that does not fit is cut,
/// unless little of it would be left.
fn head(bytes: &[u8], room: usize) -> (String, usize) {
    let (mut head, mut offset, mut left) = (String::new(), 0, room);
    for line in lines(bytes) {
        let text = shown(line);
        let length = text.chars().count();
        if length <= left {
            head.push_str(&text);
            left -= length;
            offset += line.len();
            continue;
        }
        if left >= room / 4 {
            let part: String = text.chars().take(left).collect();
            // If the line is shown as it was written, the place of the cut is known; otherwise the line is read again.
            if line.starts_with(part.as_bytes()) {
                offset += part.len();
            }
            head.push_str(&part);
        }
        break;
    }
    (head, offset)
}

/// The last lines with at most `room` characters, the first of them cut like the last line of the head.
fn tail(bytes: &[u8], room: usize) -> String {
    let mut parts = Vec::new();
    let mut left = room;
    for line in lines(bytes).into_iter().rev() {
        let text = shown(line);
        let length = text.chars().count();
        if length > left {
            if left >= room / 4 {
                parts.push(text.chars().skip(length - left).collect());
            }
            break;
        }
        parts.push(text);
        left -= length;
    }
    parts.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clipped(text: &str, max_chars: usize) -> String {
        Measured::new(text.as_bytes()).clip(max_chars, |left_out, offset| {
            format!("[{left_out} left out from {offset}]")
        })
    }

    #[test]
    fn of_what_is_drawn_over_the_last_state_is_left() {
        for (written, shown) in [
            // A spinner, and a number that goes backwards.
            ("work |\x08/\x08-\x08done\n", "work done\n"),
            ("10%\x08\x08\x0820%\n", "20%\n"),
            ("\x08\x08a\n", "a\n"),
            // Two bars, as tqdm draws them.
            (
                "a 1%\n\rb 1%\x1b[A\ra 50%\n\rb 5%\x1b[A\ra 100%\n\rb 9%\n",
                "a 100%\nb 9%\n",
            ),
            // A display that is redrawn as a whole, as by rich and by container clients.
            (
                "before\none\ntwo\n\x1b[2A\x1b[2Kone!\n\x1b[2K\rtwo!\nafter\n",
                "before\none!\ntwo!\nafter\n",
            ),
            (
                "x: Pulling\ny: Pulling\n\x1b[2A\x1b[2K\rx: Done\x1b[2B\x1b[1A\x1b[2K\ry: Done\x1b[1B\nend\n",
                "x: Done\ny: Done\n\nend\n",
            ),
            // More lines than there are.
            ("a\n\x1b[99Ab\n", "b\n"),
            ("a\nb\n\x1b[2A\x1b[J", ""),
        ] {
            assert_eq!(clean(written.as_bytes()), shown, "{written:?}");
        }
    }

    #[test]
    fn a_display_that_is_redrawn_counts_as_what_is_left_of_it() {
        let frame = "one\ntwo\n\x1b[2A";
        let text = format!("first\n{}last\n", frame.repeat(1000));
        assert_eq!(clipped(&text, 100), "first\nlast\ntwo\n");
    }

    #[test]
    fn colours_and_titles_go() {
        assert_eq!(
            clean(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07and \x1b]8;;http://x\x1b\\link\x1b(B!"),
            "red and link!"
        );
        assert_eq!(clean(b"never ends \x1b[12"), "never ends [12");
    }

    #[test]
    fn progress_bars_keep_their_last_state() {
        assert_eq!(clean(b"\r 1%\r 50%\r100%\ndone\r\n"), "100%\ndone\n");
        assert_eq!(clean(b"10%\r20%\r"), "20%");
        assert_eq!(clean(b"10%\r\x1b[K\n"), "10%\n");
    }

    #[test]
    fn what_is_no_utf_8_is_replaced() {
        assert_eq!(clean(b"caf\xe9 \xf0\x9f"), "caf\u{fffd} \u{fffd}");
    }

    #[test]
    fn empty_lines_cost_no_more_than_others() {
        assert_eq!(pieces(&[b'\n'; 1000]).count(), 1);
        let lines = b"a\n\nb\rc\n\n\nd";
        let pieces: Vec<_> = pieces(lines).collect();
        assert_eq!(pieces, [&b"a\n\n"[..], b"b\rc\n", b"\n\nd"]);
    }

    #[test]
    fn a_long_text_keeps_head_and_tail() {
        let lines: Vec<_> = (1..=400).map(|number| format!("line {number}\n")).collect();
        let text = lines.concat();
        insta::assert_snapshot!(clipped(&text, 300), @"
        line 1
        line 2
        line 3
        line 4
        line 5
        line 6
        line 7
        [3398 left out from 49]
        line 396
        line 397
        line 398
        line 399
        line 400
        ");
    }

    #[test]
    fn a_long_line_is_cut_inside() {
        let text = "a".repeat(500) + &"z".repeat(500);
        insta::assert_snapshot!(clipped(&text, 300), @"
        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        [900 left out from 50]
        zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz
        ");
    }

    #[test]
    fn half_a_character_or_sequence_waits() {
        assert_eq!(whole("aé".as_bytes()), 3);
        assert_eq!(whole(&"aé".as_bytes()[..2]), 1);
        assert_eq!(whole(&"ab😀".as_bytes()[..5]), 2);
        assert_eq!(whole(b"ab\x1b[3"), 2);
        assert_eq!(whole(b"ab\x1b[31m"), 7);
        assert_eq!(whole(b"\xff\xff\xff\xff"), 4);
    }

    proptest! {
        #[test]
        fn any_bytes_become_short_text(bytes in proptest::collection::vec(any::<u8>(), 0..2000), max_chars in 300_usize..1000) {
            let note = "[…]";
            let text = Measured::new(&bytes).clip(max_chars, |_, offset| {
                assert!(offset <= bytes.len());
                note.to_owned()
            });
            prop_assert!(text.chars().count() <= max_chars);
            prop_assert!(!text.contains('\r'));
        }

        #[test]
        fn pieces_are_shown_as_their_lines_are(bytes in "([a\\n\\r\u{8}\u{1b}\\[m]|\u{1b}\\[[0-9]?[ABKJ]){0,80}".prop_map(String::into_bytes)) {
            prop_assert_eq!(pieces(&bytes).collect::<Vec<_>>().concat(), &bytes[..]);
            let by_line: String = lines(&bytes).into_iter().map(shown).collect();
            prop_assert_eq!(Measured::new(&bytes).length, by_line.chars().count());
            prop_assert_eq!(clean(&bytes), by_line);
        }

        #[test]
        fn plain_text_stays_as_it_is(text in "([a-z é😀]{0,20}\n){0,30}") {
            prop_assert_eq!(clean(text.as_bytes()), text.as_str());
            prop_assert_eq!(clipped(&text, 10_000), text);
        }

        #[test]
        fn pieces_together_are_the_whole(text in "[aé😀\u{1b}m\\[0-9]{0,60}", size in 1_usize..20) {
            // Read as a live reader does: what is whole now, the rest next time.
            let bytes = text.as_bytes();
            let (mut shown, mut end, mut from) = (String::new(), 0, 0);
            while end < bytes.len() {
                end = (end + size).min(bytes.len());
                let ready = from + whole(&bytes[from..end]);
                shown += &clean(&bytes[from..ready]);
                from = ready;
            }
            shown += &clean(&bytes[from..]);
            prop_assert_eq!(shown, clean(bytes));
        }

        #[test]
        fn the_offset_is_where_the_head_ends(text in "([a-z]{0,80}\n){20,40}") {
            let clipped = Measured::new(text.as_bytes()).clip(400, |left_out, offset| format!("[{left_out} {offset}]"));
            if let Some((head, rest)) = clipped.split_once('[') {
                let (numbers, _) = rest.split_once(']').unwrap();
                let offset: usize = numbers.split_once(' ').unwrap().1.parse().unwrap();
                prop_assert_eq!(head.trim_end_matches('\n'), text[..offset].trim_end_matches('\n'));
            }
        }
    }
}
