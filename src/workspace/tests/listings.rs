//! What listings, snapshots and counts say.

use std::time::{Duration, SystemTime};

use super::*;

fn write(fixture: &Fixture, name: &str, content: &str) {
    let file = fixture.data().join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
}

async fn new_since(workspace: &Workspace, before: &Survey) -> Vec<String> {
    let listing = workspace.changes_since(before, true).await.unwrap();
    listing
        .files
        .iter()
        .filter(|file| file.new)
        .map(|file| file.path.to_string())
        .collect()
}

#[tokio::test]
async fn new_and_changed_files_are_marked() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    for name in [
        "same", "grown", "forged", "replaced", "gone", "old", "sub/same",
    ] {
        write(&fixture, name, "1");
    }
    let before = workspace.survey().await.unwrap();
    assert_eq!(new_since(&workspace, &before).await, [""; 0]);
    // Beyond the kernel's clock tick.
    tokio::time::sleep(Duration::from_millis(20)).await;
    write(&fixture, "grown", "12");
    let forged = fs::File::options()
        .write(true)
        .open(fixture.data().join("forged"))
        .unwrap();
    let modified = forged.metadata().unwrap().modified().unwrap();
    write(&fixture, "forged", "2");
    forged.set_modified(modified).unwrap();
    write(&fixture, "temp", "1");
    fs::rename(fixture.data().join("temp"), fixture.data().join("replaced")).unwrap();
    fs::remove_file(fixture.data().join("gone")).unwrap();
    fs::rename(
        fixture.data().join("old"),
        fixture.data().join("sub/renamed"),
    )
    .unwrap();
    write(&fixture, "made", "1");
    assert_eq!(
        new_since(&workspace, &before).await,
        ["forged", "grown", "made", "replaced", "sub/renamed"]
    );
    assert_eq!(
        names(&workspace).await,
        [
            "forged",
            "grown",
            "made",
            "replaced",
            "same",
            "sub/renamed",
            "sub/same"
        ]
    );
}

#[tokio::test]
async fn listings_stop_at_a_thousand_files_from_the_top() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    for number in 0..1_200 {
        write(&fixture, &format!("a/packages/{number}"), "");
    }
    write(&fixture, "z.txt", "");
    let listing = workspace.list().await.unwrap();
    assert_eq!(listing.files.len(), MAX_FILES);
    assert_eq!(listing.files[MAX_FILES - 1].path.as_str(), "z.txt");
    insta::assert_snapshot!(listing.truncated.unwrap(), @"Only 1000 files are listed, there are more.");
    // Files that were there without being listed do not count as new.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let before = workspace.survey().await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    for name in before_and_after(&workspace).await.iter().take(20) {
        fs::remove_file(fixture.data().join(name)).unwrap();
    }
    write(&fixture, "new.txt", "");
    assert_eq!(new_since(&workspace, &before).await, ["new.txt"]);
}

async fn before_and_after(workspace: &Workspace) -> Vec<String> {
    names(workspace).await
}

#[tokio::test]
async fn listings_stop_after_eight_levels_and_ten_thousand_entries() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    write(&fixture, "1/2/3/4/5/6/7/file", "");
    write(&fixture, "1/2/3/4/5/6/7/8/file", "");
    let listing = workspace.list().await.unwrap();
    assert_eq!(listing.files.len(), 1);
    insta::assert_snapshot!(listing.truncated.unwrap(), @"Files below more than 7 folders are not listed.");
    for number in 0..10_000 {
        fs::create_dir(fixture.data().join(number.to_string())).ok();
    }
    insta::assert_snapshot!(workspace.list().await.unwrap().truncated.unwrap(), @"Only the files among 10000 entries are listed, there are more.");
}

#[tokio::test]
async fn usage_counts_blocks_once() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    assert_eq!(
        workspace.usage().await.unwrap(),
        Usage {
            bytes: 0,
            entries: 0,
            complete: true,
            deleted: 0
        }
    );
    fs::write(fixture.data().join("a"), vec![1; 100_000]).unwrap();
    for number in 0..10 {
        fs::hard_link(
            fixture.data().join("a"),
            fixture.data().join(format!("link{number}")),
        )
        .unwrap();
    }
    let sparse = fs::File::create(fixture.data().join("sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    let usage = workspace.usage().await.unwrap();
    assert_eq!((usage.entries, usage.complete), (12, true));
    assert!((100_000..200_000).contains(&usage.bytes), "{usage:?}");
}

#[tokio::test]
async fn usage_gives_up_on_too_many_entries_and_too_deep_trees() {
    let limits = WorkspaceLimits {
        quota_bytes: MIB,
        free_space_floor: 0,
        max_entries: 10,
        storage_bytes: None,
    };
    let fixture = Fixture::with(limits);
    let workspace = fixture.workspace().await;
    for number in 0..10 {
        write(&fixture, &number.to_string(), "");
    }
    assert!(workspace.usage().await.unwrap().complete);
    write(&fixture, "10", "");
    assert_eq!(workspace.usage().await.unwrap().entries, 10);
    assert!(!workspace.usage().await.unwrap().complete);

    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    make_deep(&fixture.data(), 511);
    assert_eq!(workspace.usage().await.unwrap().entries, 511);
    assert!(workspace.usage().await.unwrap().complete);
    make_deep(&fixture.data().join("d/d"), 3_000);
    let started = SystemTime::now();
    let usage = workspace.usage().await.unwrap();
    assert_eq!((usage.entries, usage.complete), (512, false));
    assert!(started.elapsed().unwrap_or_default() < Duration::from_secs(1));
}

#[tokio::test]
async fn usage_gives_up_on_too_many_deep_folders() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    let bottom = make_deep(&fixture.data(), 500);
    let make = |number: u32| rustix::fs::mkdirat(&bottom, number.to_string(), 0o755.into());
    // The depths of the chain add up to 125,250.
    (0..3_742).for_each(|number| make(number).unwrap());
    assert!(workspace.usage().await.unwrap().complete);
    make(3_742).unwrap();
    let usage = workspace.usage().await.unwrap();
    assert_eq!((usage.entries, usage.complete), (4_243, false));
}

/// A chain of folders `d` below `top`, deeper than any path can name. Returns the last one.
pub(super) fn make_deep(top: &Path, depth: usize) -> rustix::fd::OwnedFd {
    let mut at: rustix::fd::OwnedFd = fs::File::open(top).unwrap().into();
    for _ in 0..depth {
        rustix::fs::mkdirat(&at, "d", 0o755.into()).ok();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        at = rustix::fs::openat(&at, "d", flags, rustix::fs::Mode::empty()).unwrap();
    }
    at
}

#[tokio::test]
async fn a_survey_counts_no_more_than_it_may_and_sees_all_files() {
    use std::os::unix::ffi::OsStrExt as _;
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    // In no listing, but counted.
    let unlisted = fixture.data().join(std::ffi::OsStr::from_bytes(b"\xff"));
    let unlisted = unlisted.join("d/d/d");
    fs::create_dir_all(&unlisted).unwrap();
    for number in 0..50 {
        fs::write(unlisted.join(number.to_string()), "").unwrap();
    }
    write(&fixture, "a/b/listed", "1");
    let all = 57;
    let (opener, dir) = (workspace.store().opener, workspace.dir());
    for max_entries in [0, 1, 2, 5, 20, all, 1000] {
        let before = listing::survey(opener, dir, max_entries).unwrap();
        let usage = before.usage.unwrap();
        assert_eq!(
            (usage.entries, usage.complete),
            (max_entries.min(all), max_entries >= all)
        );
        assert_eq!(new_since(&workspace, &before).await, [""; 0]);
    }
}
