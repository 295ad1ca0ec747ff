//! Some lines of the log, for the operator. Numbers of lines grow within a file, so the first one that is wanted is found
//! without reading all before it.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use serde_json::Value;
use thiserror::Error;

use super::line::Head;

/// Most bytes of one excerpt.
const MAX_BYTES: usize = 4 << 20;
/// Longest line that is read, in bytes. Those of a server are much shorter.
const LONGEST: u64 = 1 << 20;
/// So many bytes are read through for a line at most.
const NEAR: u64 = 16 << 10;

/// Some lines of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt {
    /// Each as the object that it is, the first one first.
    pub events: Vec<Value>,
    /// The number of the last one, or that behind which there is none.
    pub last: u64,
    /// Whether there are more behind it.
    pub has_more: bool,
}

/// Why there is none.
#[derive(Debug, Error)]
pub enum ExcerptError {
    /// The lines are nowhere that can be read.
    #[error(
        "AUDIT_LOG names no file: the operator can set it, such as AUDIT_LOG=/var/log/mcp-code-sandbox/audit.log"
    )]
    NoFile,
    /// The file cannot be read.
    #[error("failed to read AUDIT_LOG")]
    Unreadable(#[from] io::Error),
}

/// Reads up to `limit` lines behind the one with the number `after`, or the last ones.
pub(super) fn read(path: &Path, after: Option<u64>, limit: usize) -> Result<Excerpt, ExcerptError> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(ExcerptError::NoFile);
    }
    let mut lines = Lines {
        file: BufReader::new(file),
        size: facts.len(),
    };
    let after = match after {
        Some(after) => after,
        None => lines.last()?.saturating_sub(limit as u64),
    };
    lines.seek_behind(after)?;
    let mut excerpt = Excerpt {
        events: Vec::new(),
        last: after,
        has_more: false,
    };
    let mut bytes = 0;
    while let Some((seq, line)) = lines.next()? {
        if seq <= after {
            continue;
        }
        if excerpt.events.len() == limit || bytes + line.len() > MAX_BYTES {
            excerpt.has_more = true;
            break;
        }
        excerpt.last = seq;
        // A damaged line is passed over: `audit verify` tells of it.
        if let Ok(event) = serde_json::from_slice(&line) {
            bytes += line.len();
            excerpt.events.push(event);
        }
    }
    Ok(excerpt)
}

/// The lines of an open file, as far as it has any now.
struct Lines {
    file: BufReader<File>,
    size: u64,
}

impl Lines {
    /// The next whole line from here, with its number. What was cut off is passed over.
    fn next(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        loop {
            let mut line = Vec::new();
            let limited = &mut (&mut self.file).take(LONGEST);
            if limited.read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            if line.last() == Some(&b'\n')
                && let Some(head) = Head::parse(&line)
            {
                return Ok(Some((head.seq, line)));
            }
        }
    }

    /// Goes to the first line that begins at a place or behind it.
    fn seek(&mut self, place: u64) -> io::Result<()> {
        let Some(before) = place.checked_sub(1) else {
            self.file.seek(SeekFrom::Start(0))?;
            return Ok(());
        };
        // A line begins behind a newline, which may be the byte before.
        self.file.seek(SeekFrom::Start(before))?;
        let limited = &mut (&mut self.file).take(LONGEST);
        limited.skip_until(b'\n').map(drop)
    }

    /// Goes to a place from which on the lines behind a number come soon.
    fn seek_behind(&mut self, seq: u64) -> io::Result<()> {
        let (mut start, mut end) = (0, self.size);
        while end - start > NEAR {
            let middle = start + (end - start) / 2;
            self.seek(middle)?;
            match self.next()? {
                Some((found, _)) if found <= seq => start = middle,
                _ => end = middle,
            }
        }
        self.seek(start)
    }

    /// The number of the last line.
    fn last(&mut self) -> io::Result<u64> {
        let mut near = NEAR;
        loop {
            self.seek(self.size.saturating_sub(near))?;
            let mut last = None;
            while let Some((seq, _)) = self.next()? {
                last = Some(seq);
            }
            if let Some(last) = last {
                return Ok(last);
            }
            if near >= self.size {
                return Ok(0);
            }
            near = near.saturating_mul(8);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A log with so many lines, one of them very long and one cut off, and its file.
    fn log(first: u64, last: u64) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let line = |seq: u64| {
            let name = "n".repeat(if seq == 700 { 100_000 } else { 50 });
            format!(
                "{{\"seq\":{seq},\"at\":\"2027-01-01T12:00:00.000Z\",\"event\":\"x\",\"name\":\"{name}\",\"prev\":\"\"}}\n"
            )
        };
        let mut text: String = (first..=last).map(line).collect();
        text = text.replace("{\"seq\":300,", "{\"seq\":299,\"cut");
        fs::write(&path, text + "{\"seq\":9999,\"at\":\"20").unwrap();
        (dir, path)
    }

    fn numbers(excerpt: &Excerpt) -> Vec<u64> {
        let seq = |event: &Value| event["seq"].as_u64().unwrap();
        excerpt.events.iter().map(seq).collect()
    }

    #[test]
    fn lines_behind_any_number_are_found() {
        let (_dir, path) = log(5, 2000);
        for after in (0..2010).step_by(7).chain([299, 300, 699, 700, 1999]) {
            let excerpt = read(&path, Some(after), 3).unwrap();
            let expected = (after + 1).max(5)..=2000;
            let expected: Vec<_> = expected.filter(|seq| *seq != 300).collect();
            let some = expected.iter().copied().take(3);
            assert_eq!(numbers(&excerpt), some.collect::<Vec<_>>(), "{after}");
            assert_eq!(excerpt.has_more, expected.len() > 3);
            assert_eq!(excerpt.last, *numbers(&excerpt).last().unwrap_or(&after));
        }
    }

    #[test]
    fn without_a_number_the_last_lines_come() {
        let (_dir, path) = log(1, 2000);
        let excerpt = read(&path, None, 2).unwrap();
        assert_eq!(
            (numbers(&excerpt), excerpt.has_more),
            (vec![1999, 2000], false)
        );
        let (_dir, path) = log(1, 700);
        assert_eq!(numbers(&read(&path, None, 1).unwrap()), [700]);
        let (_dir, path) = log(1, 0);
        let empty = read(&path, None, 10).unwrap();
        assert_eq!((empty.events.len(), empty.last), (0, 0));
    }

    #[test]
    fn a_damaged_line_is_passed_over() {
        let (_dir, path) = log(1, 5);
        let text = fs::read_to_string(&path).unwrap();
        let broken = text.replacen("\"name\":\"", "\"name\":\u{1}\"", 1);
        fs::write(&path, broken).unwrap();
        let excerpt = read(&path, Some(0), 2).unwrap();
        assert_eq!((numbers(&excerpt), excerpt.last), (vec![2, 3], 3));
    }

    #[test]
    fn a_device_is_no_file() {
        let read = read(Path::new("/dev/null"), None, 1);
        assert!(matches!(read, Err(ExcerptError::NoFile)));
    }
}
