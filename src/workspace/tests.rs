//! Workspaces on a real file system, with everything in them that programs were seen to make.

mod folders;
mod hostile;
mod last_seen;
mod listings;
mod moves;
mod owners;
mod packages;
mod races;
mod removals;
mod renames;
mod uploads;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::TempDir;

use super::beneath::Opener;
use super::path::RelativePath;
use super::*;

const MIB: u64 = 1 << 20;

/// Workspaces with little room, on a file system that can move names only in steps, or as it is.
pub(super) fn workspaces(root: &Path, in_steps: bool) -> Workspaces {
    let limits = WorkspaceLimits {
        quota_bytes: MIB,
        free_space_floor: 0,
        max_entries: 100,
        storage_bytes: None,
    };
    let workspaces = Workspaces::open(root, Owner::for_this_process(), limits).unwrap();
    if in_steps {
        workspaces.moving_in_steps()
    } else {
        workspaces
    }
}

/// A root that is deleted at the end, and one conversation in it.
struct Fixture {
    root: TempDir,
    workspaces: Workspaces,
    key: ConversationKey,
}

impl Fixture {
    fn new() -> Self {
        Self::with(WorkspaceLimits {
            quota_bytes: 64 * MIB,
            free_space_floor: 0,
            max_entries: 100_000,
            storage_bytes: None,
        })
    }

    fn with(limits: WorkspaceLimits) -> Self {
        let root = TempDir::new().unwrap();
        let workspaces = Workspaces::open(root.path(), Owner::for_this_process(), limits).unwrap();
        Self {
            root,
            workspaces,
            key: "0123456789abcdef".repeat(4).parse().unwrap(),
        }
    }

    /// The same without `openat2`.
    fn part_by_part() -> Self {
        let mut fixture = Self::new();
        let mut store = Store::open(
            fixture.root.path(),
            Owner::for_this_process().into(),
            *fixture.workspaces.limits(),
        )
        .unwrap();
        store.opener = store.opener.part_by_part();
        fixture.workspaces = Workspaces {
            store: Arc::new(store),
        };
        fixture
    }

    /// The same on a file system that can move names only in steps, or as it is.
    fn moving(mut self, in_steps: bool) -> Self {
        if in_steps {
            self.workspaces = self.workspaces.moving_in_steps();
        }
        self
    }

    /// Where the conversation's files are.
    fn data(&self) -> PathBuf {
        self.root.path().join(self.key.as_str())
    }

    async fn workspace(&self) -> Workspace {
        self.workspaces.create(&self.key).await.unwrap()
    }

    /// How many things there are in the private directory.
    fn leftovers(&self) -> usize {
        fs::read_dir(self.root.path().join(".tmp")).unwrap().count()
    }
}

impl Workspaces {
    /// Behaves as where the file system does not know the flags of `renameat2`.
    pub(super) fn moving_in_steps(mut self) -> Self {
        let store = Arc::get_mut(&mut self.store).expect("nothing has been done with it yet");
        store.moves.is_plain = true;
        self
    }
}

fn path(name: &str) -> RelativePath {
    RelativePath::parse(name).unwrap()
}

async fn read(workspace: &Workspace, name: &str) -> Option<String> {
    let file = workspace.open_file(&path(name)).await.unwrap()?;
    Some(std::io::read_to_string(file.file).unwrap())
}

async fn names(workspace: &Workspace) -> Vec<String> {
    let files = workspace.list().await.unwrap().files;
    files.iter().map(|file| file.path.to_string()).collect()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_workspace_is_made_once_and_found_again() {
    let fixture = Fixture::new();
    assert!(
        fixture
            .workspaces
            .find(&fixture.key)
            .await
            .unwrap()
            .is_none()
    );
    fixture.workspace().await;
    fs::write(fixture.data().join("a.txt"), "a").unwrap();
    let again = fixture
        .workspaces
        .find(&fixture.key)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read(&again, "a.txt").await.as_deref(), Some("a"));
    assert_eq!(names(&fixture.workspace().await).await, ["a.txt"]);
}

#[tokio::test]
async fn directories_have_their_owners_and_modes() {
    let parent = TempDir::new().unwrap();
    let root = parent.path().join("deep/root");
    let owner = Owner::for_this_process();
    let limits = WorkspaceLimits {
        quota_bytes: MIB,
        free_space_floor: 0,
        max_entries: 10,
        storage_bytes: None,
    };
    let workspaces = Workspaces::open(&root, owner, limits).unwrap();
    let key = "f".repeat(64).parse().unwrap();
    workspaces.create(&key).await.unwrap();
    let data = root.join(key.as_str());
    assert_eq!(
        (mode(&root), mode(&root.join(".tmp")), mode(&data)),
        (0o711, 0o700, 0o700)
    );
    let made = fs::metadata(&data).unwrap();
    assert_eq!((made.uid(), made.gid()), (owner.uid, owner.gid));
}

#[tokio::test]
async fn many_may_make_the_same_workspace() {
    let fixture = Fixture::new();
    let made =
        futures::future::join_all((0..64).map(|_| fixture.workspaces.create(&fixture.key))).await;
    assert!(made.iter().all(Result::is_ok));
}

#[tokio::test]
async fn counting_what_is_kept_is_no_use() {
    let fixture = Fixture::new();
    fixture.workspace().await;
    fs::write(fixture.data().join("a.txt"), "a").unwrap();
    let census = fixture.workspaces.census().await.unwrap();
    assert!(census.conversations == 1 && census.bytes > 0, "{census:?}");
    let note = fixture.root.path().join(".used").join(fixture.key.as_str());
    assert!(!note.exists(), "nobody has used it");
}

#[tokio::test]
async fn a_use_is_noted() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    let note = fixture.root.path().join(".used").join(fixture.key.as_str());
    assert!(!note.exists(), "opening it is no use yet");
    workspace.list().await.unwrap();
    let age = note.metadata().unwrap().modified().unwrap().elapsed();
    assert!(age.unwrap_or_default() < std::time::Duration::from_mins(1));
    let shown = fs::metadata(fixture.root.path().join(".used")).unwrap();
    assert_eq!(shown.mode() & 0o7777, 0o700, "no program sees it");
}

#[tokio::test]
async fn a_full_file_system_is_noticed() {
    let limits = WorkspaceLimits {
        quota_bytes: MIB,
        free_space_floor: u64::MAX,
        max_entries: 10,
        storage_bytes: None,
    };
    let fixture = Fixture::with(limits);
    assert!(matches!(
        fixture.workspaces.check_space(),
        Err(WorkspaceError::DiskFull)
    ));
    let upload = fixture
        .workspace()
        .await
        .write_file(&path("a"), Bytes::from("a"), Existing::Replace)
        .await;
    assert!(matches!(upload, Err(WorkspaceError::DiskFull)));
    assert!(Fixture::new().workspaces.check_space().is_ok());
}
