//! The files of a conversation are not looked at again before a run, when the run before has seen them.

use std::time::Duration;

use super::*;

const FILES: usize = 100;

/// What a run sees, and one file that it makes or changes.
async fn run(workspace: &Workspace, program: impl FnOnce()) -> Vec<String> {
    let before = workspace.survey().await.unwrap();
    program();
    let listing = workspace.changes_since(&before).await.unwrap();
    let new = listing.files.iter().filter(|file| file.new);
    new.map(|file| file.path.to_string()).collect()
}

/// A conversation with many files, of which a run has seen all.
async fn seen() -> (Fixture, Workspace) {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    for number in 0..FILES {
        fs::write(fixture.data().join(number.to_string()), "").unwrap();
    }
    assert_eq!(run(&workspace, || {}).await, [""; 0]);
    (fixture, workspace)
}

/// Whether the next run need not look at the files. It does so afterwards.
fn is_known(workspace: &Workspace) -> bool {
    let directory = workspace.directory_id().unwrap();
    let seen = &workspace.store().last_seen;
    seen.take(workspace.key(), directory).is_some()
}

#[tokio::test]
async fn a_run_finds_what_it_changed_itself() {
    let (fixture, workspace) = seen().await;
    let file = |name: &str| fixture.data().join(name);
    fs::write(file("by hand"), "1").unwrap();
    fs::write(file("1"), "by hand").unwrap();
    fs::remove_file(file("2")).unwrap();
    // Beyond the kernel's clock tick.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let new = run(&workspace, || {
        fs::write(file("made"), "1").unwrap();
        fs::write(file("3"), "1").unwrap();
        fs::rename(file("4"), file("renamed")).unwrap();
    });
    assert_eq!(new.await, ["3", "made", "renamed"]);
    let new = run(&workspace, || fs::write(file("by hand"), "2").unwrap());
    assert_eq!(new.await, ["by hand"]);
    assert!(is_known(&workspace));
}

#[tokio::test]
async fn what_takes_room_is_known_too() {
    let (_fixture, workspace) = seen().await;
    let known = workspace.survey().await.unwrap().usage;
    assert_eq!(known, Some(workspace.usage().await.unwrap()));
    assert_eq!(known.unwrap().entries, FILES as u64);
}

#[tokio::test]
async fn what_the_server_changed_is_no_change_of_the_next_run() {
    let (fixture, workspace) = seen().await;
    let content = || Bytes::from_static(b"1");
    let write = async || {
        workspace
            .write_file(&path("up/loaded"), content(), Existing::Replace)
            .await
            .unwrap();
    };
    let nothing = async || assert_eq!(run(&workspace, || {}).await, [""; 0]);
    write().await;
    nothing().await;
    workspace.make_folder(&path("folder")).await.unwrap();
    assert!(!is_known(&workspace));
    nothing().await;
    let [from, to] = ["up/loaded", "name"].map(path);
    workspace.rename_file(&from, &to).await.unwrap();
    nothing().await;
    let [from, to] = ["up", "down"].map(path);
    assert!(workspace.rename_folder(&from, &to).await.unwrap());
    assert!(!is_known(&workspace));
    nothing().await;
    assert!(workspace.remove_file(&path("1"), None).await.unwrap());
    assert!(!is_known(&workspace));
    nothing().await;
    assert!(workspace.remove_folder(&path("down")).await.unwrap());
    assert!(!is_known(&workspace));
    // While a run looks at its files, so that it may have seen them or not.
    let before = workspace.survey().await.unwrap();
    let mark = workspace.store().last_seen.mark();
    write().await;
    let directory = workspace.directory_id().unwrap();
    let seen = &workspace.store().last_seen;
    seen.keep(&fixture.key, directory, before, mark);
    assert!(!is_known(&workspace));
}

#[tokio::test]
async fn another_directory_is_looked_at() {
    let (fixture, workspace) = seen().await;
    fs::rename(fixture.data(), fixture.root.path().join("away")).unwrap();
    let other = fixture.workspace().await;
    assert_eq!(other.survey().await.unwrap().usage.unwrap().entries, 0);
    assert!(!is_known(&workspace));
}

#[tokio::test]
async fn few_files_and_too_many_are_looked_at() {
    let limits = WorkspaceLimits {
        quota_bytes: MIB,
        free_space_floor: 0,
        max_entries: FILES as u64,
        storage_bytes: None,
    };
    let fixture = Fixture::with(limits);
    let workspace = fixture.workspace().await;
    let make = |number: usize| fs::write(fixture.data().join(number.to_string()), "").unwrap();
    make(0);
    run(&workspace, || {}).await;
    assert!(!is_known(&workspace), "one file");
    run(&workspace, || (1..FILES).for_each(make)).await;
    assert!(is_known(&workspace));
    run(&workspace, || make(FILES)).await;
    assert!(!is_known(&workspace), "one more than there may be");
    let found = workspace.survey().await.unwrap().usage.unwrap();
    assert!(!found.complete);
}
