//! What clients were granted: one small file for each, `SANDBOX_ROOT/.logins/<id>`, in a directory that no program sees.
//! All are in memory too, so that a call waits for no disk.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard, RwLock};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::codes::Approval;
use crate::access::TokenHash;
use crate::scope::Scopes;

const LOGINS: &str = ".logins";
/// What the name of a file begins with that is not written yet.
const UNFINISHED: &str = ".";
/// How long a grant is kept without use.
const LIFE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// Grants of one token: the one that was not used for the longest time goes first.
pub(super) const MOST_PER_TOKEN: usize = 100;

/// The name of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct GrantId(String);

impl GrantId {
    pub(super) fn random() -> Self {
        Self(hex::encode(rand::random::<[u8; 16]>()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for GrantId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

/// What a client was granted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Grant {
    /// To whom, as a fingerprint.
    pub(super) client: String,
    /// For which address.
    pub(super) resource: String,
    /// By whom: whose token was pasted.
    pub(super) token: TokenHash,
    /// What the client asked for. What was pasted may let its holder do less.
    #[serde(default = "everything")]
    pub(super) scopes: Scopes,
    /// How often it was refreshed: which refresh token is the last.
    pub(super) generation: u64,
    /// When that was, in seconds of Unix time.
    used: i64,
}

impl Grant {
    pub(super) fn new(approval: Approval) -> Self {
        Self {
            client: approval.client,
            resource: approval.resource,
            token: approval.token,
            scopes: approval.scopes,
            generation: 0,
            used: Timestamp::now().as_second(),
        }
    }

    pub(super) fn renew(&mut self) {
        self.generation += 1;
        self.used = Timestamp::now().as_second();
    }

    fn is_over(&self, now: Timestamp) -> bool {
        now.as_second().saturating_sub(self.used) > LIFE.as_secs()
    }
}

/// What clients asked for whose grants do not say.
const fn everything() -> Scopes {
    Scopes::ALL
}

/// All grants.
#[derive(Debug)]
pub(super) struct Grants {
    directory: PathBuf,
    all: RwLock<HashMap<GrantId, Grant>>,
    turn: Mutex<()>,
}

/// The right to change grants, which one has at a time. What counts is in the file before it is said to anybody.
pub(super) struct Turn<'a> {
    grants: &'a Grants,
    _turn: MutexGuard<'a, ()>,
}

impl Grants {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let directory = root.join(LOGINS);
        fs::create_dir_all(&directory)?;
        fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
        let mut all = HashMap::new();
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name else { continue };
            if name.starts_with(UNFINISHED) {
                fs::remove_file(&path)?;
                continue;
            }
            match serde_json::from_slice::<Grant>(&fs::read(&path)?) {
                Ok(grant) if grant.is_over(Timestamp::now()) => fs::remove_file(&path)?,
                Ok(grant) => {
                    all.insert(GrantId(name.to_owned()), grant);
                }
                Err(error) => warn!(%error, name, "a login is damaged, and counts for nothing"),
            }
        }
        Ok(Self {
            directory,
            all: RwLock::new(all),
            turn: Mutex::default(),
        })
    }

    pub(super) fn find(&self, id: &GrantId) -> Option<Grant> {
        let all = self.all.read();
        let grant = all.get(id).filter(|grant| !grant.is_over(Timestamp::now()));
        grant.cloned()
    }

    pub(super) fn turn(&self) -> Turn<'_> {
        Turn {
            grants: self,
            _turn: self.turn.lock(),
        }
    }

    fn path(&self, id: &GrantId) -> PathBuf {
        self.directory.join(&id.0)
    }

    /// Writes a file in one step, and so that it survives a loss of power: an older one would take a used refresh token.
    fn write(&self, id: &GrantId, grant: &Grant) -> io::Result<()> {
        let unfinished = self.directory.join(format!("{UNFINISHED}{}", id.0));
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&unfinished)?;
        file.write_all(&serde_json::to_vec(grant)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, self.path(id))?;
        File::open(&self.directory)?.sync_all()
    }
}

impl Turn<'_> {
    /// Keeps a new grant, and removes those that it takes the place of.
    pub(super) fn begin(&mut self, id: GrantId, grant: Grant) -> io::Result<()> {
        for old in self.in_excess(&grant.token) {
            self.end(&old)?;
        }
        self.renew(id, grant)
    }

    /// Keeps a grant as it is now.
    pub(super) fn renew(&mut self, id: GrantId, grant: Grant) -> io::Result<()> {
        self.grants.write(&id, &grant)?;
        self.grants.all.write().insert(id, grant);
        Ok(())
    }

    /// Removes a grant, if it is there. It counts no longer even where its file cannot be removed.
    pub(super) fn end(&mut self, id: &GrantId) -> io::Result<()> {
        self.grants.all.write().remove(id);
        match fs::remove_file(self.grants.path(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // A loss of power must not bring it back.
            removed => removed.and_then(|()| File::open(&self.grants.directory)?.sync_all()),
        }
    }

    /// Those that are over, and the oldest of a token that has as many as it may.
    fn in_excess(&self, token: &TokenHash) -> Vec<GrantId> {
        let now = Timestamp::now();
        let all = self.grants.all.read();
        let (over, current): (Vec<_>, Vec<_>) =
            all.iter().partition(|(_, grant)| grant.is_over(now));
        let mut own: Vec<_> = current
            .into_iter()
            .filter(|(_, grant)| grant.token == *token)
            .collect();
        own.sort_by_key(|(_, grant)| std::cmp::Reverse(grant.used));
        let oldest = own.into_iter().skip(MOST_PER_TOKEN - 1);
        let gone = over.into_iter().chain(oldest);
        gone.map(|(id, _)| id.clone()).collect()
    }
}
