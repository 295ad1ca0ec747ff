//! The file that lines go to: how it is opened, and what its end says about the chain.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::error::AuditError;
use super::line::{Chain, Head, Torn};

/// Bytes at the end of a file among which its last whole line is looked for. Lines are much shorter.
const TAIL: u64 = 1 << 20;
/// Permissions of a file that is made.
const MODE: u32 = 0o600;

/// An open file that lines are appended to.
#[derive(Debug)]
pub(super) struct Target {
    file: File,
    /// Where it is opened again; `None` for standard output.
    path: Option<PathBuf>,
}

/// What the end of a file says.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) chain: Chain,
    /// What was cut off behind the last whole line.
    pub(super) torn: Option<Torn>,
    /// Whether it does not end with a newline.
    pub(super) is_open: bool,
}

impl Target {
    /// Opens a file, and makes it if there is none.
    pub(super) fn open(path: &Path) -> Result<Self, AuditError> {
        let path = path.to_owned();
        // A pipe without a reader would be waited for.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = File::options();
        options.read(true).append(true).create(true);
        let file = match options.mode(MODE).custom_flags(flags).open(&path) {
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Err(AuditError::Link { path });
            }
            Err(source) => return Err(AuditError::Unopenable { path, source }),
            Ok(file) => file,
        };
        let kind = match file.metadata() {
            Err(source) => return Err(AuditError::Unopenable { path, source }),
            Ok(facts) => facts.file_type(),
        };
        if !kind.is_file() && !kind.is_char_device() {
            return Err(AuditError::NoFile { path });
        }
        Ok(Self {
            file,
            path: Some(path),
        })
    }

    /// Standard output, without a buffer of its own.
    pub(super) fn stdout() -> Result<Self, AuditError> {
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        let stdout = stdout.map_err(|error| AuditError::NoStdout(error.to_string()))?;
        Ok(Self {
            file: stdout.into(),
            path: None,
        })
    }

    /// Keeps other servers from the file: two of them would break the chain.
    pub(super) fn lock(&self) -> Result<(), AuditError> {
        let Some(path) = self.path.clone().filter(|_| self.is_regular()) else {
            return Ok(());
        };
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(AuditError::Taken { path }),
            // Some file systems have no locks.
            Err(_) | Ok(()) => Ok(()),
        }
    }

    /// Opens the path again. `None` if that is the file that is open already.
    pub(super) fn reopened(&self) -> Result<Option<Self>, AuditError> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let again = Self::open(path)?;
        let is_same = match (self.file.metadata(), again.file.metadata()) {
            (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
            _ => false,
        };
        if is_same {
            return Ok(None);
        }
        again.lock()?;
        Ok(Some(again))
    }

    /// Writes as much as it takes, and says how many bytes that was, and what kept it from the rest.
    pub(super) fn write(&mut self, mut text: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while !text.is_empty() {
            match self.file.write(text) {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(bytes) => {
                    written += bytes;
                    text = &text[bytes..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    /// Reads where the chain of its lines continues.
    pub(super) fn tail(&self) -> Result<Tail, AuditError> {
        let (Some(path), true) = (&self.path, self.is_regular()) else {
            return Ok(Tail::empty());
        };
        let unreadable = |source| AuditError::Unopenable {
            path: path.clone(),
            source,
        };
        let (text, is_all) = self.end().map_err(unreadable)?;
        Tail::of(&text, is_all).ok_or_else(|| AuditError::Foreign { path: path.clone() })
    }

    /// Whether it has text that does not end with a newline.
    pub(super) fn is_open(&self) -> bool {
        let end = if self.is_regular() {
            self.end()
        } else {
            return false;
        };
        end.is_ok_and(|(text, _)| text.last().is_some_and(|byte| *byte != b'\n'))
    }

    /// The last whole lines, and whether they are all.
    fn end(&self) -> io::Result<(Vec<u8>, bool)> {
        let size = self.file.metadata()?.len();
        let start = size.saturating_sub(TAIL);
        let mut text = vec![0; usize::try_from(size - start).unwrap_or_default()];
        self.file.read_exact_at(&mut text, start)?;
        if start > 0 {
            let first = text.iter().position(|byte| *byte == b'\n');
            text.drain(..first.map_or(text.len(), |newline| newline + 1));
        }
        Ok((text, start == 0))
    }

    fn is_regular(&self) -> bool {
        self.file.metadata().is_ok_and(|facts| facts.is_file())
    }
}

impl Tail {
    fn empty() -> Self {
        Self {
            chain: Chain::new(),
            torn: None,
            is_open: false,
        }
    }

    /// `None` if there is no line of an audit log.
    fn of(text: &[u8], is_all: bool) -> Option<Self> {
        if text.is_empty() {
            return is_all.then(Self::empty);
        }
        let whole = text.strip_suffix(b"\n");
        let lines: Vec<&[u8]> = whole.unwrap_or(text).split(|byte| *byte == b'\n').collect();
        let mut heads = lines.iter().enumerate().rev();
        let last = heads.find_map(|(place, line)| Some((place, Head::parse(line)?)));
        let (chain, cut) = match last {
            Some((place, head)) => (Chain::after(head.seq, lines[place]), &lines[place + 1..]),
            // The very first line was cut off.
            None if is_all && is_begun(lines[0]) => (Chain::new(), &lines[..]),
            None => return None,
        };
        let mut torn = Torn::default();
        for line in cut {
            torn.add(line);
        }
        Some(Self {
            chain,
            torn: (!cut.is_empty()).then_some(torn),
            is_open: whole.is_none(),
        })
    }
}

/// Whether a text can be the beginning of the first line. It may have been closed since, and what followed cut off too.
fn is_begun(text: &[u8]) -> bool {
    const BEGINNING: &[u8] = br#"{"seq":1,"at":""#;
    text.starts_with(BEGINNING) || BEGINNING.starts_with(text)
}
