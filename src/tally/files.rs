//! What was counted, as a file `SANDBOX_ROOT/.usage/<day>.json` for each day, in a directory that no program sees. A file
//! is replaced in one step.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tracing::warn;

use super::AllCounts;

/// The name of the directory.
const USAGE: &str = ".usage";
/// What the name of a file ends with that is whole.
const WHOLE: &str = ".json";
/// What the name of a file ends with that is damaged.
const DAMAGED: &str = "damaged";
/// What the name of a file begins with that is not written to its end yet.
const UNFINISHED: &str = ".unfinished-";
/// Days that are kept.
pub(super) const KEPT_DAYS: usize = 400;

/// The files.
#[derive(Debug)]
pub(super) struct DayFiles {
    directory: PathBuf,
    /// The file that this process writes before it replaces another.
    unfinished: PathBuf,
}

/// The right to change files, which one server has at a time.
pub(super) struct Turn<'a> {
    files: &'a DayFiles,
    /// Locked as long as it is open.
    _lock: File,
}

impl DayFiles {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let directory = root.join(USAGE);
        fs::create_dir_all(&directory)?;
        fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
        let unfinished = format!("{UNFINISHED}{:016x}", rand::random::<u64>());
        Ok(Self {
            unfinished: directory.join(unfinished),
            directory,
        })
    }

    /// Some file systems have no locks: there two servers can lose what the other counts.
    ///
    /// # Errors
    /// It is another server's: [`io::ErrorKind::WouldBlock`].
    pub(super) fn turn(&self) -> io::Result<Turn<'_>> {
        let lock = File::open(&self.directory)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(Turn {
                files: self,
                _lock: lock,
            }),
        }
    }

    /// The days of which there is something.
    pub(super) fn days(&self) -> io::Result<Vec<Date>> {
        let day = |name: String| name.strip_suffix(WHOLE)?.parse().ok();
        Ok(self.names()?.into_iter().filter_map(day).collect())
    }

    /// What was counted on a day: nothing if there is no file. One that is damaged counts for nothing.
    pub(super) fn read(&self, day: Date) -> io::Result<AllCounts> {
        Ok(self.parse(day)?.unwrap_or_else(|error| {
            warn!(%error, %day, "what tenants used on a day is damaged, and counts for nothing");
            AllCounts::default()
        }))
    }

    fn parse(&self, day: Date) -> io::Result<serde_json::Result<AllCounts>> {
        match fs::read(self.file(day)) {
            Ok(text) => Ok(serde_json::from_slice(&text)),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => Ok(Ok(AllCounts::default())),
                io::ErrorKind::IsADirectory => Ok(Err(serde::de::Error::custom(error))),
                _ => Err(error),
            },
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.directory)?.map(|entry| Ok(entry?.file_name()));
        let names: Vec<_> = names.collect::<io::Result<_>>()?;
        Ok(names
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect())
    }

    fn file(&self, day: Date) -> PathBuf {
        self.directory.join(format!("{day}{WHOLE}"))
    }
}

impl Turn<'_> {
    /// Adds to what was counted on a day. A damaged file is set aside.
    pub(super) fn add(&self, day: Date, counts: &AllCounts) -> io::Result<()> {
        let path = self.files.file(day);
        if !path.exists() {
            self.tidy(KEPT_DAYS - 1);
        }
        let mut all = match self.files.parse(day)? {
            Ok(all) => all,
            Err(error) => {
                warn!(%error, %day, "what tenants used on a day is damaged, and set aside");
                fs::rename(&path, path.with_extension(DAMAGED))?;
                AllCounts::default()
            }
        };
        all.add(counts);
        let unfinished = &self.files.unfinished;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(unfinished)?;
        file.write_all(&serde_json::to_vec(&all)?)?;
        // A loss of power must not leave an empty file in place of the whole day.
        file.sync_data()?;
        fs::rename(unfinished, path)
    }

    /// Removes all but the newest days, and what servers did not write to its end.
    pub(super) fn tidy(&self, kept: usize) {
        let (Ok(names), Ok(mut days)) = (self.files.names(), self.files.days()) else {
            return;
        };
        days.sort_unstable();
        let too_many = days.len().saturating_sub(kept);
        let old = days.iter().take(too_many).map(|day| self.files.file(*day));
        let strays = names.iter().filter(|name| name.starts_with(UNFINISHED));
        let strays = strays.map(|name| self.files.directory.join(name));
        for path in old.chain(strays) {
            if let Err(error) = fs::remove_file(&path) {
                let path = path.display();
                warn!(%error, %path, "what tenants used cannot be removed");
            }
        }
    }
}
