//! What was counted, as files `SANDBOX_ROOT/.usage/<day>/<tenant>` in a directory that no program sees. A file is
//! replaced in one step.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use rustix::fs::{FlockOperation, flock};
use tracing::warn;

use super::DayCounts;
use crate::principal::{Name, Tenant};

/// The name of the directory.
const USAGE: &str = ".usage";
/// What is not written to its end yet: no tenant has the name.
const UNFINISHED: &str = ".unfinished";

/// The files.
#[derive(Debug)]
pub(super) struct DayFiles {
    directory: PathBuf,
    /// The first day that is kept, as of the last look.
    kept_from: Option<Date>,
}

/// The right to change files, which one server has at a time.
pub(super) struct Turn<'a> {
    files: &'a DayFiles,
    /// Locked as long as it is open.
    _lock: Option<File>,
}

impl DayFiles {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let directory = root.join(USAGE);
        fs::create_dir_all(&directory)?;
        fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
        Ok(Self {
            directory,
            kept_from: None,
        })
    }

    /// Waits for other servers. Some file systems have no locks: there two servers can lose what the other counts.
    pub(super) fn turn(&self) -> Turn<'_> {
        let lock = File::open(&self.directory).ok();
        let lock = lock.filter(|lock| flock(lock, FlockOperation::LockExclusive).is_ok());
        Turn {
            files: self,
            _lock: lock,
        }
    }

    /// The days of which there is something.
    pub(super) fn days(&self) -> io::Result<Vec<Date>> {
        names_in(&self.directory, |name| name.parse().ok())
    }

    /// Those of whom there is something of a day.
    pub(super) fn tenants(&self, day: Date) -> io::Result<Vec<Tenant>> {
        names_in(&self.folder(day), |name| {
            name.parse::<Name>().ok().map(Tenant::of)
        })
    }

    /// What was counted of a tenant on a day: nothing if there is no file. One that is damaged counts for nothing.
    pub(super) fn read(&self, day: Date, tenant: &Tenant) -> io::Result<DayCounts> {
        let text = match fs::read(self.folder(day).join(tenant.name())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(DayCounts::default());
            }
            text => text?,
        };
        Ok(serde_json::from_slice(&text).unwrap_or_else(|error| {
            let tenant = tenant.name();
            warn!(%error, %day, tenant, "what a tenant used on a day is damaged, and counts for nothing");
            DayCounts::default()
        }))
    }

    /// Removes what is older, once for each day.
    pub(super) fn forget_before(&mut self, first: Date) -> io::Result<()> {
        if self.kept_from == Some(first) {
            return Ok(());
        }
        for day in self.days()?.into_iter().filter(|day| *day < first) {
            match fs::remove_dir_all(self.folder(day)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.kept_from = Some(first);
        Ok(())
    }

    fn folder(&self, day: Date) -> PathBuf {
        self.directory.join(day.to_string())
    }
}

impl Turn<'_> {
    /// Adds to what was counted of a tenant on a day.
    pub(super) fn add(&self, day: Date, tenant: &Tenant, counts: &DayCounts) -> io::Result<()> {
        let mut all = self.files.read(day, tenant)?;
        all.add(counts);
        let folder = self.files.folder(day);
        fs::create_dir_all(&folder)?;
        let unfinished = folder.join(UNFINISHED);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&unfinished)?;
        file.write_all(&serde_json::to_vec(&all)?)?;
        // A loss of power must not leave an empty file in place of the whole day.
        file.sync_data()?;
        fs::rename(&unfinished, folder.join(tenant.name()))
    }
}

/// What names of a directory mean, of those that mean something. A directory that is not there has none.
fn names_in<T>(directory: &Path, meaning: impl Fn(&str) -> Option<T>) -> io::Result<Vec<T>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(entry?.file_name().to_str().and_then(&meaning));
    }
    Ok(found)
}
