//! What is left of lines that are drawn over: backspaces, and a cursor that goes up to earlier lines (ECMA-48).
//!
//! This is a screen as programs imagine it, as wide as they like. As with a carriage return, what is written to a line
//! after the cursor came back to it takes the place of all that was there: nothing of a longer state is left over.

use std::ops::Range;

use super::{ESCAPE, escape_length};

/// Furthest that one sequence moves the cursor.
const MAX_ROWS: usize = 200;

/// A line, in which the next letter goes to `at`; `None` once the cursor came back to its beginning.
#[derive(Debug, Default)]
struct Row {
    text: Vec<char>,
    at: Option<usize>,
}

impl Row {
    fn write(&mut self, letter: char) {
        let at = self.at.unwrap_or_else(|| {
            self.text.clear();
            0
        });
        match self.text.get_mut(at) {
            Some(old) => *old = letter,
            None => self.text.push(letter),
        }
        self.at = Some(at + 1);
    }

    fn step_back(&mut self) {
        self.at = self.at.map(|at| at.saturating_sub(1));
    }
}

/// What stands on the screen after these bytes.
pub(super) fn drawn(mut bytes: &[u8]) -> String {
    let (mut rows, mut current) = (vec![Row::default()], 0);
    while let Some(first) = bytes.first() {
        let length = match first {
            &ESCAPE => {
                let length = escape_length(bytes).unwrap_or(1);
                current = obey(&bytes[..length], &mut rows, current);
                length
            }
            b'\n' => {
                current = go_to(current + 1, &mut rows);
                1
            }
            b'\r' => {
                rows[current].at = None;
                1
            }
            0x08 => {
                rows[current].step_back();
                1
            }
            _ => {
                let length = bytes
                    .iter()
                    .position(|byte| super::is_special(*byte) || *byte == b'\n');
                let text = &bytes[..length.unwrap_or(bytes.len())];
                String::from_utf8_lossy(text)
                    .chars()
                    .for_each(|letter| rows[current].write(letter));
                text.len()
            }
        };
        bytes = &bytes[length..];
    }
    let lines: Vec<String> = rows.iter().map(|row| row.text.iter().collect()).collect();
    lines.join("\n")
}

/// Does what an escape sequence says, and returns the number of the row that the cursor is in.
fn obey(sequence: &[u8], rows: &mut Vec<Row>, current: usize) -> usize {
    let Some((count, last)) = control(sequence) else {
        return current;
    };
    match last {
        b'A' | b'F' => go_to(current.saturating_sub(count.unwrap_or(1).max(1)), rows),
        b'B' | b'E' => {
            let bottom = rows.len() - 1;
            go_to(
                (current + count.unwrap_or(1).clamp(1, MAX_ROWS)).min(bottom),
                rows,
            )
        }
        b'K' if count == Some(2) => {
            rows[current] = Row::default();
            current
        }
        b'J' if count.unwrap_or(0) == 0 => {
            rows.truncate(current);
            go_to(current, rows)
        }
        _ => current,
    }
}

fn go_to(row: usize, rows: &mut Vec<Row>) -> usize {
    while rows.len() <= row {
        rows.push(Row::default());
    }
    rows[row].at = None;
    row
}

/// The number and the last byte of a control sequence with at most one number.
fn control(sequence: &[u8]) -> Option<(Option<usize>, u8)> {
    let (last, number) = sequence.strip_prefix(b"\x1b[")?.split_last()?;
    match number {
        [] => Some((None, *last)),
        number => Some((Some(str::from_utf8(number).ok()?.parse().ok()?), *last)),
    }
}

/// By how many rows each sequence in these bytes moves the cursor, down or, below zero, up.
pub(super) fn moves(bytes: &[u8]) -> impl Iterator<Item = isize> {
    let escapes = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == ESCAPE);
    escapes.filter_map(|(at, _)| {
        let sequence = &bytes[at..at + escape_length(&bytes[at..])?];
        let (count, last) = control(sequence)?;
        let rows = count.unwrap_or(1).clamp(1, MAX_ROWS).cast_signed();
        match last {
            b'A' | b'F' => Some(-rows),
            b'B' | b'E' => Some(rows),
            _ => None,
        }
    })
}

/// Bytes that are drawn over together.
#[derive(Debug)]
struct Display {
    bytes: Range<usize>,
    rows: usize,
}

/// The displays that output consists of, most of which are a line.
#[derive(Debug, Default)]
pub(super) struct Displays {
    all: Vec<Display>,
    /// In which row of the last one the cursor is; below it, a new one begins.
    row: usize,
}

impl Displays {
    /// Adds the next line.
    pub(super) fn add(&mut self, line: &[u8]) {
        let begin = self.all.last().map_or(0, |last| last.bytes.end);
        let mut last = match self.all.pop() {
            Some(open) if self.row < open.rows => open,
            closed => {
                self.all.extend(closed);
                self.row = 0;
                Display {
                    bytes: begin..begin,
                    rows: 1,
                }
            }
        };
        last.bytes.end = begin + line.len();
        for rows in moves(line) {
            while self.row.checked_add_signed(rows).is_none()
                && let Some(above) = self.all.pop()
            {
                self.row += above.rows;
                last.rows += above.rows;
                last.bytes.start = above.bytes.start;
            }
            self.row = self.row.saturating_add_signed(rows).min(last.rows - 1);
        }
        self.row += 1;
        self.all.push(last);
    }

    /// Where each of them is.
    pub(super) fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        self.all.into_iter().map(|display| display.bytes)
    }
}
