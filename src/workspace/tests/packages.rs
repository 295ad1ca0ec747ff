//! Packages that are put in place, and downloads that are kept.

use std::os::unix::fs::symlink;
use std::time::Duration;

use rstest::rstest;
use sha2::{Digest as _, Sha256};

use super::races::Meanwhile;
use super::*;
use crate::access::Access;

impl Fixture {
    /// A directory for work with a tree of one file in it.
    async fn tree(&self, content: &[u8]) -> Scratch {
        let scratch = self
            .workspaces
            .new_scratch(Owner::for_this_process())
            .await
            .unwrap();
        let tree = self
            .root
            .path()
            .join(scratch.place().below_root().unwrap())
            .join("tree");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("module.py"), content).unwrap();
        scratch
    }

    async fn place(&self, content: &[u8]) -> Result<(), WorkspaceError> {
        let scratch = self.tree(content).await;
        let note = format!("note of {} bytes", content.len());
        let workspace = self.workspace().await;
        workspace
            .place_packages(&scratch, "tree", "python", note, || true)
            .await
            .map(|placed| assert!(placed))
    }

    fn placed(&self) -> Vec<u8> {
        fs::read(self.data().join(".packages/python/module.py")).unwrap()
    }

    fn kept(&self) -> Vec<String> {
        let cache = self.root.path().join(".packages/cache");
        let kept = fs::read_dir(cache).unwrap();
        let mut names: Vec<_> = kept
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[rstest]
#[tokio::test]
async fn a_tree_takes_the_place_of_whatever_is_there(#[values(false, true)] in_steps: bool) {
    let fixture = Fixture::new().moving(in_steps);
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("module.py"), "mine").unwrap();
    fixture.place(b"first").await.unwrap();
    let packages = fixture.data().join(".packages");
    let python = packages.join("python");
    for prepare in [
        (|_: &Path, _: &Path, _: &Path| {}) as fn(&Path, &Path, &Path),
        // Only keeps out a server that is not root.
        |packages, python, _| {
            set_mode(python, 0o555);
            set_mode(packages, 0o555);
        },
        |_, python, outside| {
            fs::remove_dir_all(python).unwrap();
            symlink(outside, python).unwrap();
        },
        |_, python, _| {
            fs::remove_dir_all(python).unwrap();
            fs::write(python, "a file").unwrap();
        },
        |packages, _, outside| {
            fs::remove_dir_all(packages).unwrap();
            symlink(outside, packages).unwrap();
        },
        |packages, _, _| {
            fs::remove_dir_all(packages).unwrap();
            symlink("/nowhere", packages).unwrap();
        },
    ] {
        prepare(&packages, &python, outside.path());
        fixture.place(b"second").await.unwrap();
        assert_eq!(fixture.placed(), b"second");
        assert!(fs::symlink_metadata(&python).unwrap().is_dir());
    }
    let outside: Vec<_> = fs::read_dir(outside.path()).unwrap().collect();
    assert_eq!(outside.len(), 1);
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(fixture.leftovers(), 0);
}

#[rstest]
#[tokio::test]
async fn a_tree_that_does_not_fit_changes_nothing(#[values(false, true)] in_steps: bool) {
    let fixture = Fixture::with(WorkspaceLimits {
        quota_bytes: MIB,
        free_space_floor: 0,
        max_entries: 6,
        storage_bytes: None,
    })
    .moving(in_steps);
    // What is replaced counts as free.
    for _ in 0..2 {
        fixture.place(&vec![1; 600 << 10]).await.unwrap();
    }
    let error = fixture.place(&vec![2; 2 << 20]).await.unwrap_err();
    assert!(matches!(error, WorkspaceError::QuotaExceeded { .. }));
    for name in 0..4 {
        fs::write(fixture.data().join(name.to_string()), "").unwrap();
    }
    let error = fixture.place(b"small").await.unwrap_err();
    assert!(matches!(error, WorkspaceError::TooManyEntries { .. }));
    assert_eq!(fixture.placed().len(), 600 << 10);
    let note = fixture.workspace().await.packages_note().await.unwrap();
    assert_eq!(note, "note of 614400 bytes");
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(fixture.leftovers(), 0);
}

#[tokio::test]
async fn a_tree_fits_into_what_its_tenant_may_have() {
    let fixture = Fixture::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.toml");
    let text = "[[tenant]]\nname = \"default\"\nworkspace_quota = \"1m\"\n";
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let access = Access::open(None, Some(path)).unwrap();
    let _ = fixture.workspaces.clone().limited_by(access);
    let error = fixture.place(&vec![2; 2 << 20]).await.unwrap_err();
    assert!(matches!(
        error,
        WorkspaceError::QuotaExceeded { limit: MIB, .. }
    ));
    fixture.place(&vec![1; 600 << 10]).await.unwrap();
}

#[rstest]
#[tokio::test]
async fn a_tree_is_placed_with_its_note_or_not_at_all(#[values(false, true)] in_steps: bool) {
    let fixture = Fixture::new().moving(in_steps);
    let note = fixture.root.path().join(".used").join(fixture.key.as_str());
    // Nothing can take the place of that.
    fs::create_dir_all(note.join("in the way")).unwrap();
    fixture.place(b"first").await.unwrap_err();
    assert!(!fixture.data().join(".packages/python").exists());
    fs::remove_dir_all(&note).unwrap();
    fixture.place(b"second").await.unwrap();
    fs::remove_file(&note).unwrap();
    fs::create_dir_all(note.join("in the way")).unwrap();
    fixture.place(b"third").await.unwrap_err();
    assert_eq!(fixture.placed(), b"second");
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(fixture.leftovers(), 0);
}

#[rstest]
#[tokio::test]
async fn a_tree_that_nobody_wants_any_more_changes_nothing(#[values(false, true)] in_steps: bool) {
    let fixture = Fixture::new().moving(in_steps);
    fixture.place(b"first").await.unwrap();
    let scratch = fixture.tree(b"second").await;
    let (workspace, note) = (fixture.workspace().await, "a note".to_owned());
    let placed = workspace.place_packages(&scratch, "tree", "python", note, || false);
    assert!(!placed.await.unwrap());
    drop(scratch);
    assert_eq!(fixture.placed(), b"first");
    let note = workspace.packages_note().await.unwrap();
    assert_eq!(note, "note of 5 bytes");
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(fixture.leftovers(), 0);
}

#[rstest]
#[tokio::test]
async fn what_a_tree_is_placed_with_lasts_as_long_as_that_takes(
    #[values(false, true)] in_steps: bool,
) {
    /// Notes what was in place when it went.
    struct Guard(PathBuf, Arc<parking_lot::Mutex<Vec<bool>>>);

    impl Drop for Guard {
        fn drop(&mut self) {
            self.1.lock().push(self.0.exists());
        }
    }

    let fixture = Fixture::new().moving(in_steps);
    let (scratch, workspace) = (fixture.tree(b"x").await, fixture.workspace().await);
    let gone = Arc::default();
    let python = fixture.data().join(".packages/python");
    let guard = Guard(python, Arc::clone(&gone));
    let is_wanted = move || guard.0.is_absolute();
    let note = "a note".to_owned();
    let mut placed =
        Box::pin(workspace.place_packages(&scratch, "tree", "python", note, is_wanted));
    // Its caller goes away once it has begun, or even ended.
    let _ = futures::poll!(placed.as_mut());
    drop(placed);
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(*gone.lock(), [true]);
}

#[rstest]
#[tokio::test]
async fn the_note_goes_with_its_conversation(#[values(false, true)] in_steps: bool) {
    let fixture = Fixture::new().moving(in_steps);
    assert_eq!(fixture.workspace().await.packages_note().await.unwrap(), "");
    fixture.place(b"x").await.unwrap();
    assert!(fixture.workspaces.remove(&fixture.key).await.unwrap());
    assert_eq!(fixture.workspace().await.packages_note().await.unwrap(), "");
}

#[rstest]
#[tokio::test]
async fn packages_are_no_files_of_the_conversation(#[values(false, true)] in_steps: bool) {
    let fixture = Fixture::new().moving(in_steps);
    let workspace = fixture.workspace().await;
    let before = workspace.survey().await.unwrap();
    fixture.place(b"x").await.unwrap();
    fs::create_dir(fixture.data().join("sub")).unwrap();
    fs::create_dir(fixture.data().join("sub/.packages")).unwrap();
    fs::write(fixture.data().join("sub/.packages/own"), "").unwrap();
    let listing = workspace.changes_since(&before, true).await.unwrap();
    let names: Vec<_> = listing
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(names, ["sub/.packages/own"]);
    assert_eq!(workspace.usage().await.unwrap().entries, 6);
    for name in [".packages", ".packages/python/module.py"] {
        assert!(RelativePath::parse(name).is_err());
    }
}

#[rstest]
#[tokio::test]
async fn a_directory_that_nobody_waits_for_is_gone_once_all_is_settled(
    #[values(false, true)] in_steps: bool,
) {
    let fixture = Fixture::new().moving(in_steps);
    for _ in 0..300 {
        let begun = fixture.workspaces.new_scratch(Owner::for_this_process());
        let given_up = tokio::time::timeout(Duration::ZERO, begun).await.is_err();
        fixture.workspaces.wait_for_background_work().await;
        assert_eq!(fixture.leftovers(), 0, "given up: {given_up}");
    }
}

#[rstest]
#[tokio::test]
async fn downloads_are_kept_under_the_hash_of_what_is_in_them(
    #[values(false, true)] in_steps: bool,
) {
    let fixture = Fixture::new().moving(in_steps);
    let limit = 2500;
    let hash = |content: &[u8]| hex::encode(Sha256::digest(content));
    let mut hashes = Vec::new();
    for (number, age) in [(1_u8, 300), (2, 200), (3, 100)] {
        let scratch = fixture
            .workspaces
            .new_scratch(Owner::for_this_process())
            .await
            .unwrap();
        let wheels = fixture
            .root
            .path()
            .join(scratch.place().below_root().unwrap())
            .join("wheels");
        let content = vec![number; 1000];
        fs::create_dir(&wheels).unwrap();
        fs::write(wheels.join("good.whl"), &content).unwrap();
        fs::write(wheels.join("forged.whl"), "something else").unwrap();
        symlink("/etc/passwd", wheels.join("link.whl")).unwrap();
        let file = |name: &str, sha256: String| Kept {
            name: name.to_owned(),
            sha256,
        };
        let files = vec![
            file("good.whl", hash(&content)),
            file("forged.whl", hash(b"forged")),
            file("../../good.whl", hash(b"path")),
            file("good.whl", "../../../x".to_owned()),
        ];
        let workspaces = &fixture.workspaces;
        workspaces
            .keep_downloads(&scratch, "wheels", files, limit)
            .await
            .unwrap();
        let link = vec![file("link.whl", hash(b"link"))];
        let followed = workspaces
            .keep_downloads(&scratch, "wheels", link, limit)
            .await;
        assert!(followed.is_err());
        hashes.push(hash(&content));
        // As if it had been used a while ago.
        let kept = fixture
            .root
            .path()
            .join(".packages/cache")
            .join(&hashes[hashes.len() - 1]);
        let used = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        fs::File::open(kept).unwrap().set_modified(used).unwrap();
    }
    let mut expected = hashes[1..].to_vec();
    expected.sort();
    assert_eq!(fixture.kept(), expected);
    let cache = fixture.root.path().join(".packages");
    assert_eq!(mode(&cache), 0o700);
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(fixture.leftovers(), 0);
}

#[rstest]
#[tokio::test]
async fn a_damaged_download_is_exchanged(#[values(false, true)] in_steps: bool) {
    let fixture = Fixture::new().moving(in_steps);
    let hash = hex::encode(Sha256::digest(b"whole"));
    let kept = fixture.root.path().join(".packages/cache").join(&hash);
    for _ in 0..2 {
        let scratch = fixture.tree(b"").await;
        let below = scratch.place().below_root().unwrap();
        fs::write(fixture.root.path().join(below).join("tree/a.whl"), "whole").unwrap();
        let file = Kept {
            name: "a.whl".to_owned(),
            sha256: hash.clone(),
        };
        let keep = fixture
            .workspaces
            .keep_downloads(&scratch, "tree", vec![file], MIB);
        keep.await.unwrap();
        assert_eq!(fs::read(kept.join("a.whl")).unwrap(), b"whole");
        // As a power loss may leave it.
        fs::write(kept.join("a.whl"), "").unwrap();
    }
    assert_eq!(fixture.kept(), [hash]);
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(fixture.leftovers(), 0);
}

#[rstest]
#[tokio::test]
async fn no_more_downloads_are_kept_than_there_is_room_for(#[values(false, true)] in_steps: bool) {
    let kept = async |floor: u64| {
        let fixture = Fixture::with(WorkspaceLimits {
            quota_bytes: 64 * MIB,
            free_space_floor: floor,
            max_entries: 100_000,
            storage_bytes: None,
        })
        .moving(in_steps);
        let scratch = fixture
            .workspaces
            .new_scratch(Owner::for_this_process())
            .await
            .unwrap();
        let wheels = fixture
            .root
            .path()
            .join(scratch.place().below_root().unwrap())
            .join("wheels");
        fs::create_dir(&wheels).unwrap();
        // Holes, which take nothing of the disk before they are copied.
        let file = |megabytes: u64| {
            let name = format!("{megabytes}.whl");
            let hole = fs::File::create(wheels.join(&name)).unwrap();
            hole.set_len(megabytes * MIB).unwrap();
            let content = fs::read(wheels.join(&name)).unwrap();
            let sha256 = hex::encode(Sha256::digest(content));
            Kept { name, sha256 }
        };
        let files = vec![file(3), file(2), file(1)];
        let hashes = [&files[0], &files[2]].map(|file| file.sha256.clone());
        let workspaces = &fixture.workspaces;
        let result = workspaces
            .keep_downloads(&scratch, "wheels", files, 4 * MIB)
            .await;
        (result.is_ok(), fixture.kept().len(), {
            let kept = fixture.kept();
            hashes.iter().all(|hash| kept.contains(hash))
        })
    };
    assert_eq!(kept(0).await, (true, 2, true));
    assert_eq!(kept(u64::MAX).await, (false, 0, false));
}

#[rstest]
#[tokio::test]
async fn a_program_in_the_way_loses_only_what_is_its_own(#[values(false, true)] in_steps: bool) {
    let fixture = Fixture::new().moving(in_steps);
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("module.py"), "mine").unwrap();
    fixture.place(b"first").await.unwrap();
    let (python, target) = (
        fixture.data().join(".packages/python"),
        outside.path().to_owned(),
    );
    let busy = Meanwhile::repeat(move || {
        let _ = fs::create_dir(&python);
        let _ = fs::write(&python, "a file");
        let _ = symlink(&target, &python);
        let _ = fs::rename(&python, python.with_file_name("aside"));
        let _ = fs::remove_file(python.with_file_name("aside"));
        let _ = fs::remove_dir_all(python.with_file_name("aside"));
    });
    for _ in 0..200 {
        let scratch = fixture.tree(b"second").await;
        let (workspace, note) = (fixture.workspace().await, "a note".to_owned());
        let placed = workspace.place_packages(&scratch, "tree", "python", note, || true);
        // It is refused if the program is always faster.
        let _ = placed.await;
    }
    drop(busy);
    fixture.place(b"third").await.unwrap();
    assert_eq!(fixture.placed(), b"third");
    let mine = fs::read_to_string(outside.path().join("module.py")).unwrap();
    assert_eq!(mine, "mine");
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(fixture.leftovers(), 0);
}
