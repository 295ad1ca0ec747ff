//! The files of a conversation are not looked at again before a run, when the run before has seen them.

use super::*;

const FILES: usize = 100;

/// The files that a run makes or changes, as it sees them itself.
async fn run(workspace: &Workspace, program: impl FnOnce()) -> Vec<String> {
    run_to(workspace, true, program).await
}

async fn run_to(workspace: &Workspace, has_ended: bool, program: impl FnOnce()) -> Vec<String> {
    let before = workspace.survey().await.unwrap();
    program();
    let listing = workspace.changes_since(&before, has_ended).await.unwrap();
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
    fs::create_dir(fixture.data().join("folder")).unwrap();
    fs::write(fixture.data().join("folder/old"), "").unwrap();
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
async fn a_run_finds_what_it_changed() {
    let (fixture, workspace) = seen().await;
    let file = |name: &str| fixture.data().join(name);
    let new = run(&workspace, || {
        fs::write(file("made"), "1").unwrap();
        fs::write(file("3"), "1").unwrap();
        fs::rename(file("4"), file("renamed")).unwrap();
        fs::rename(file("folder"), file("moved")).unwrap();
        fs::remove_file(file("5")).unwrap();
    });
    assert_eq!(new.await, ["3", "made", "moved/old", "renamed"]);
    assert_eq!(run(&workspace, || {}).await, [""; 0]);
    assert!(is_known(&workspace));
}

/// So it is known without another look.
#[tokio::test]
async fn what_others_change_between_two_runs_is_taken_for_a_change_of_the_second() {
    let (fixture, workspace) = seen().await;
    fs::write(fixture.data().join("by hand"), "1").unwrap();
    assert_eq!(run(&workspace, || {}).await, ["by hand"]);
    assert_eq!(run(&workspace, || {}).await, [""; 0]);
}

#[tokio::test]
async fn what_takes_room_is_known_too() {
    let (_fixture, workspace) = seen().await;
    let known = workspace.survey().await.unwrap().usage;
    assert_eq!(known, Some(workspace.usage().await.unwrap()));
    assert_eq!(known.unwrap().entries, FILES as u64 + 2);
}

#[tokio::test]
async fn what_the_server_changed_is_no_change_of_the_next_run() {
    let (_fixture, workspace) = seen().await;
    let looks = async || {
        assert!(!is_known(&workspace));
        assert_eq!(run(&workspace, || {}).await, [""; 0]);
    };
    workspace
        .write_file(
            &path("up/loaded"),
            Bytes::from_static(b"1"),
            Existing::Replace,
        )
        .await
        .unwrap();
    looks().await;
    workspace.make_folder(&path("made")).await.unwrap();
    looks().await;
    let [from, to] = ["up/loaded", "name"].map(path);
    workspace.rename_file(&from, &to).await.unwrap();
    looks().await;
    let [from, to] = ["folder", "moved"].map(path);
    assert!(workspace.rename_folder(&from, &to).await.unwrap());
    looks().await;
    assert!(workspace.remove_file(&path("1"), None).await.unwrap());
    looks().await;
    assert!(workspace.remove_folder(&path("moved")).await.unwrap());
    looks().await;
}

#[tokio::test]
async fn nothing_is_kept_while_others_use_the_conversation_or_may_go_on() {
    let (fixture, workspace) = seen().await;
    run_to(&workspace, false, || {}).await;
    assert!(!is_known(&workspace), "nobody saw the end of the program");
    let hold = || fixture.workspaces.store.uses.book().hold(&fixture.key);
    assert!(hold());
    run(&workspace, || {}).await;
    assert!(is_known(&workspace), "the run holds it itself");
    assert!(hold());
    run(&workspace, || {}).await;
    assert!(!is_known(&workspace));
}

/// It may have changed what a run has looked at already.
#[tokio::test]
async fn nothing_is_kept_when_an_upload_came_and_went_meanwhile() {
    let (fixture, workspace) = seen().await;
    let uses = &fixture.workspaces.store.uses;
    let keep = |alone: Option<usize>, survey: &Survey| {
        let directory = workspace.directory_id().unwrap();
        let store = workspace.store();
        store.keep_seen(&fixture.key, alone.unwrap(), directory, survey.clone());
        is_known(&workspace)
    };
    assert!(uses.book().hold(&fixture.key), "the run");
    let survey = workspace.survey().await.unwrap();
    let alone = uses.book().alone(&fixture.key);
    assert!(keep(alone, &survey));
    assert!(uses.book().hold(&fixture.key), "the upload");
    assert_eq!(uses.book().alone(&fixture.key), None);
    uses.book().release(&fixture.key);
    assert!(!keep(alone, &survey));
    let alone = uses.book().alone(&fixture.key);
    assert!(keep(alone, &survey));
}

#[tokio::test]
async fn another_directory_is_looked_at() {
    let (fixture, _) = seen().await;
    fs::rename(fixture.data(), fixture.root.path().join("away")).unwrap();
    let other = fixture.workspace().await;
    assert_eq!(other.survey().await.unwrap().usage.unwrap().entries, 0);
}

#[tokio::test]
async fn what_is_deleted_is_forgotten() {
    let (fixture, workspace) = seen().await;
    assert!(fixture.workspaces.remove(&fixture.key).await.unwrap());
    assert!(!is_known(&workspace));
}

/// How many entries a conversation has, and how many bytes its only file with content.
async fn is_kept(entries: usize, bytes: usize) -> bool {
    let fixture = Fixture::with(WorkspaceLimits {
        quota_bytes: MIB,
        free_space_floor: 0,
        max_entries: 200,
        storage_bytes: None,
    });
    let workspace = fixture.workspace().await;
    run(&workspace, || {
        for number in 1..entries {
            fs::write(fixture.data().join(number.to_string()), "").unwrap();
        }
        fs::write(fixture.data().join("content"), vec![1; bytes]).unwrap();
    })
    .await;
    is_known(&workspace)
}

#[tokio::test]
async fn few_files_and_those_near_the_limits_are_looked_at() {
    let mut kept = Vec::new();
    for (entries, bytes) in [
        (63, 1),
        (64, 1),
        (100, 1),
        (101, 1),
        (64, MIB / 2 - 8192),
        (64, MIB / 2 + 1),
    ] {
        kept.push(is_kept(entries, usize::try_from(bytes).unwrap()).await);
    }
    assert_eq!(kept, [false, true, true, false, true, false]);
}
