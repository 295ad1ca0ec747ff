//! Writes lines, and keeps the chain whole when one cannot be written, or not to its end.

use std::io;

use super::error::AuditError;
use super::event::Event;
use super::line::{Chain, Dated, Torn};
use super::target::Target;
use crate::config::AuditTarget;

/// The log, and where its chain continues.
#[derive(Debug)]
pub(super) struct Log {
    target: Target,
    chain: Chain,
    /// What was cut off behind the last whole line, and is still to be explained.
    torn: Option<Torn>,
    /// Whether what was written last does not end with a newline.
    is_open: bool,
    /// Events that could not be written, and are still to be counted in a line.
    lost: u64,
}

/// What becomes of the log when a line has been written to its end.
enum Means {
    /// What was cut off is explained.
    Mended,
    /// What was lost is counted.
    Counted,
    /// An event is recorded.
    Recorded,
}

/// Lines that are to be written at once.
struct Draft {
    text: String,
    /// Where the first begins.
    start: usize,
    lines: Vec<(usize, Chain, Means)>,
}

impl Log {
    /// Opens it, and continues the chain of the lines that it has.
    pub(super) fn open(target: &AuditTarget) -> Result<Self, AuditError> {
        let target = match target {
            AuditTarget::File(path) => Target::open(path)?,
            AuditTarget::Stdout => Target::stdout()?,
        };
        target.lock()?;
        let tail = target.tail()?;
        Ok(Self {
            target,
            chain: tail.chain,
            torn: tail.torn,
            is_open: tail.is_open,
            lost: 0,
        })
    }

    /// Bytes that an earlier server did not write to the end of their line.
    pub(super) fn torn_bytes(&self) -> Option<u64> {
        self.torn.as_ref().map(|torn| torn.bytes)
    }

    /// How many events are still to be counted.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Counts events that never got here.
    pub(super) fn lose(&mut self, count: u64) {
        self.lost += count;
    }

    /// Goes on with what is at the path now, when the file was renamed.
    pub(super) fn reopen(&mut self) -> Result<(), AuditError> {
        if let Some(target) = self.target.reopened()? {
            self.is_open = target.is_open();
            self.target = target;
        }
        Ok(())
    }

    /// Writes events behind what is still to be told. Returns how many of them are written, and what kept it from the
    /// rest, which is counted as lost.
    pub(super) fn write(&mut self, events: &[Dated]) -> (usize, io::Result<()>) {
        let draft = self.draft(events);
        if draft.lines.is_empty() {
            return (0, Ok(()));
        }
        let (bytes, result) = self.target.write(draft.text.as_bytes());
        let recorded = self.take(draft, bytes);
        self.lost += (events.len() - recorded) as u64;
        (recorded, result)
    }

    fn draft(&self, events: &[Dated]) -> Draft {
        let mut text = String::from(if self.is_open { "\n" } else { "" });
        let (start, mut chain, mut lines) = (text.len(), self.chain.clone(), Vec::new());
        let mut add = |dated: &Dated, means| {
            text.push_str(&chain.append(dated));
            lines.push((text.len(), chain.clone(), means));
            text.push('\n');
        };
        if let Some(torn) = &self.torn {
            add(&Dated::now(torn.event()), Means::Mended);
        }
        if self.lost > 0 {
            let lost = Event::EventsLost { count: self.lost };
            add(&Dated::now(lost), Means::Counted);
        }
        for dated in events {
            add(dated, Means::Recorded);
        }
        Draft { text, start, lines }
    }

    /// Notes what of a draft is written, and returns how many of its events. A line without its newline is whole: the
    /// next one begins with that.
    fn take(&mut self, draft: Draft, bytes: usize) -> usize {
        let Draft { text, start, lines } = draft;
        let (mut recorded, mut rest) = (0, start);
        for (end, chain, means) in lines {
            if end > bytes {
                break;
            }
            (self.chain, rest) = (chain, end + 1);
            match means {
                Means::Mended => self.torn = None,
                Means::Counted => self.lost = 0,
                Means::Recorded => recorded += 1,
            }
        }
        let text = &text.as_bytes()[..bytes];
        if let Some(cut) = text.get(rest..).filter(|cut| !cut.is_empty()) {
            self.torn.get_or_insert_default().add(cut);
        }
        if let Some(last) = text.last() {
            self.is_open = *last != b'\n';
        }
        recorded
    }
}

#[cfg(test)]
mod tests;
