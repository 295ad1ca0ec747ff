//! Folders and links beside files.

use std::os::unix::fs::symlink;

use rustix::fs::{CWD, Mode, mkfifoat};

use super::*;

/// Names and kinds of what is in a folder.
async fn listed(workspace: &Workspace, folder: Option<&str>, levels: usize) -> Vec<String> {
    let folder = folder.map(path);
    let entries = workspace.list_folder(folder.as_ref(), levels).await;
    let entries = entries.unwrap().unwrap().into_iter();
    let told = entries.map(|entry| format!("{} {:?}", entry.path.as_str(), entry.kind));
    told.collect()
}

#[tokio::test]
async fn folders_are_listed_level_by_level_without_the_packages() {
    for fixture in [Fixture::new(), Fixture::part_by_part()] {
        let workspace = fixture.workspace().await;
        let data = fixture.data();
        fs::create_dir_all(data.join("a/b/c")).unwrap();
        fs::create_dir(data.join(".packages")).unwrap();
        fs::write(data.join("a/x"), "x").unwrap();
        symlink("/etc", data.join("link")).unwrap();
        mkfifoat(CWD, data.join("pipe"), Mode::RWXU).unwrap();
        assert_eq!(listed(&workspace, None, 1).await, ["a Folder", "link Link"]);
        let all = ["a/b Folder", "a/b/c Folder", "a/x File"];
        assert_eq!(listed(&workspace, Some("a"), 9).await, all);
        let none = workspace.list_folder(Some(&path("none")), 1).await;
        assert_eq!(none.unwrap(), None);
        for file in ["a/x", "link"] {
            let refused = workspace.list_folder(Some(&path(file)), 1).await;
            let refused = refused.unwrap_err();
            assert!(
                matches!(refused, WorkspaceError::NotADirectory),
                "{refused}"
            );
        }
    }
}

#[tokio::test]
async fn no_link_leads_anywhere() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("kept")).unwrap();
    symlink(outside.path(), fixture.data().join("link")).unwrap();
    let (link, below) = (path("link"), path("link/kept"));
    let entry = workspace.look(&link).await.unwrap().unwrap();
    assert_eq!(entry.kind, EntryKind::Link);
    assert_eq!(workspace.look(&below).await.unwrap(), None);
    assert!(!workspace.remove_folder(&below).await.unwrap());
    assert!(!workspace.remove_folder(&link).await.unwrap());
    assert!(!workspace.rename_folder(&below, &path("b")).await.unwrap());
    for made in ["link", "link/new"] {
        let refused = workspace.make_folder(&path(made)).await.unwrap_err();
        assert!(
            matches!(refused, WorkspaceError::NotADirectory),
            "{refused}"
        );
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn folders_are_made_moved_and_removed_though_a_program_locked_them() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    assert!(workspace.make_folder(&path("a/b")).await.unwrap());
    assert!(!workspace.make_folder(&path("a/b")).await.unwrap());
    fs::write(fixture.data().join("a/b/x"), "x").unwrap();
    for folder in ["a/b", "a"] {
        set_mode(&fixture.data().join(folder), 0);
    }
    assert!(
        workspace
            .rename_folder(&path("a/b"), &path("c/d"))
            .await
            .unwrap()
    );
    let taken = workspace.rename_folder(&path("c"), &path("a")).await;
    assert!(matches!(taken.unwrap_err(), WorkspaceError::NameTaken));
    assert_eq!(read(&workspace, "c/d/x").await.as_deref(), Some("x"));
    assert!(workspace.remove_folder(&path("c")).await.unwrap());
    assert!(!workspace.remove_folder(&path("c")).await.unwrap());
    assert_eq!(listed(&workspace, None, 9).await, ["a Folder"]);
}

#[tokio::test]
async fn folders_count_among_the_entries() {
    let limits = WorkspaceLimits {
        quota_bytes: MIB,
        free_space_floor: 0,
        max_entries: 2,
        storage_bytes: None,
    };
    let fixture = Fixture::with(limits);
    let workspace = fixture.workspace().await;
    let refused = workspace.make_folder(&path("a/b/c")).await.unwrap_err();
    assert!(matches!(refused, WorkspaceError::TooManyEntries { .. }));
    assert!(workspace.make_folder(&path("a/b")).await.unwrap());
}
