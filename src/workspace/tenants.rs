//! Whose conversations are: the content of a file `SANDBOX_ROOT/.tenants/<key>`, in a directory that no program sees.
//! Those of the default tenant have none, so that a server without others has nothing to note, and no such directory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, fchmod, mkdirat, openat, unlinkat};
use rustix::io::{Errno, Result};

use super::WorkspaceError;
use super::beneath::Opener;
use super::uses::keys_in;
use super::walk::gone_is_none;
use crate::conversation::ConversationKey;
use crate::principal::{MAX_NAME_BYTES, Name, Tenant};

/// Name of the directory of notes.
const TENANTS: &str = ".tenants";

/// The notes, and what this process knows of them.
#[derive(Debug)]
pub(super) struct TenantNotes {
    opener: Opener,
    root: OwnedFd,
    /// The directory, once there is one.
    notes: OnceLock<OwnedFd>,
    known: Mutex<HashMap<ConversationKey, Known>>,
}

/// Whose a conversation is known to be.
#[derive(Debug)]
struct Known {
    tenant: Tenant,
    /// Whether the disk says so too. It does not before there is something of the conversation.
    is_noted: bool,
}

impl TenantNotes {
    pub(super) fn open(
        opener: Opener,
        root: BorrowedFd<'_>,
    ) -> std::result::Result<Self, WorkspaceError> {
        let root = root.try_clone_to_owned().map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            WorkspaceError::of("open SANDBOX_ROOT")(errno)
        })?;
        let notes = Self {
            opener,
            root,
            notes: OnceLock::new(),
            known: Mutex::default(),
        };
        notes
            .existing()
            .map_err(WorkspaceError::of("open the directory of tenants"))?;
        Ok(notes)
    }

    /// The directory, if there is one by now: another server may have made it.
    fn existing(&self) -> Result<Option<&OwnedFd>> {
        if let Some(notes) = self.notes.get() {
            return Ok(Some(notes));
        }
        let opened = self.opener.folder(self.root.as_fd(), [TENANTS.as_bytes()]);
        let Some(notes) = gone_is_none(opened)? else {
            return Ok(None);
        };
        fchmod(&notes, Mode::RWXU)?;
        Ok(Some(self.notes.get_or_init(|| notes)))
    }

    /// The directory, which is made if there is none.
    fn made(&self) -> Result<&OwnedFd> {
        match mkdirat(&self.root, TENANTS, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        self.existing()?.ok_or(Errno::NOENT)
    }

    /// Remembers whose a conversation is that is in use, and may not be there yet.
    pub(super) fn remember(&self, key: &ConversationKey, tenant: &Tenant) {
        let mut known = self.known.lock();
        if known.get(key).is_none_or(|known| known.tenant != *tenant) {
            let (tenant, is_noted) = (tenant.clone(), false);
            known.insert(key.clone(), Known { tenant, is_noted });
        }
    }

    /// Forgets a conversation of which nothing came while it was in use.
    pub(super) fn forget_unnoted(&self, key: &ConversationKey) {
        let mut known = self.known.lock();
        if known.get(key).is_some_and(|known| !known.is_noted) {
            known.remove(key);
        }
    }

    /// Notes whose a conversation is that is in use, and of which there is something. A full disk has no room for that:
    /// then it counts as the default tenant's until its next use.
    pub(super) fn note(&self, key: &ConversationKey) {
        let unnoted = match self.known.lock().get(key) {
            Some(known) if !known.is_noted && known.tenant != Tenant::Default => {
                known.tenant.clone()
            }
            _ => return,
        };
        match self.write(key, unnoted.name()) {
            Ok(()) => {
                if let Some(known) = self.known.lock().get_mut(key) {
                    known.is_noted = true;
                }
            }
            Err(error) => tracing::debug!(%error, "the tenant of a conversation was not noted"),
        }
    }

    fn write(&self, key: &ConversationKey, name: &str) -> std::io::Result<()> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let note = openat(self.made()?, key.as_str(), flags, mode)?;
        File::from(note).write_all(name.as_bytes())
    }

    /// Whose a conversation is.
    pub(super) fn of(&self, key: &ConversationKey) -> Tenant {
        if let Some(known) = self.known.lock().get(key) {
            return known.tenant.clone();
        }
        let read = self.read(key).unwrap_or_else(|error| {
            tracing::debug!(%error, "the tenant of a conversation was not read");
            None
        });
        let read = Known {
            tenant: read.map_or(Tenant::Default, Tenant::of),
            is_noted: true,
        };
        let mut known = self.known.lock();
        known.entry(key.clone()).or_insert(read).tenant.clone()
    }

    fn read(&self, key: &ConversationKey) -> std::io::Result<Option<Name>> {
        let Some(notes) = self.existing()? else {
            return Ok(None);
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = gone_is_none(openat(notes, key.as_str(), flags, Mode::empty()))?;
        let Some(note) = opened else {
            return Ok(None);
        };
        let mut name = String::new();
        let longest = MAX_NAME_BYTES as u64;
        File::from(note).take(longest).read_to_string(&mut name)?;
        Ok(name.parse().ok())
    }

    /// What those of each tenant sum up to, as far as it is known whose they are.
    pub(super) fn sums<'a>(
        &self,
        sizes: impl Iterator<Item = (&'a ConversationKey, u64)>,
    ) -> HashMap<Tenant, u64> {
        let known = self.known.lock();
        let mut sums = HashMap::new();
        for (key, bytes) in sizes {
            let tenant = known
                .get(key)
                .map_or(&Tenant::Default, |known| &known.tenant);
            if let Some(sum) = sums.get_mut(tenant) {
                *sum += bytes;
            } else {
                sums.insert(tenant.clone(), bytes);
            }
        }
        sums
    }

    /// The note first: one that is made meanwhile is read again.
    pub(super) fn forget(&self, key: &ConversationKey) {
        if let Ok(Some(notes)) = self.existing() {
            // If this fails, the sweep removes the note.
            let _ = unlinkat(notes, key.as_str(), AtFlags::empty());
        }
        self.known.lock().remove(key);
    }

    /// The conversations that have a note.
    pub(super) fn keys(&self) -> Result<Vec<ConversationKey>> {
        match self.existing()? {
            Some(notes) => keys_in(self.opener, notes.as_fd()),
            None => Ok(Vec::new()),
        }
    }
}
