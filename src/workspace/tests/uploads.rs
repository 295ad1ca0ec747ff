//! Files that callers put into workspaces.

use std::os::unix::fs::symlink;

use super::*;

async fn upload(
    workspace: &Workspace,
    name: &str,
    content: &str,
) -> Result<FileEntry, WorkspaceError> {
    workspace
        .write_file(
            &path(name),
            Bytes::copy_from_slice(content.as_bytes()),
            Existing::Replace,
        )
        .await
}

#[tokio::test]
async fn an_upload_is_the_programs_own_file() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    let entry = upload(&workspace, "in/put/data.csv", "a,b").await.unwrap();
    assert_eq!(
        (entry.path.as_str(), entry.size, entry.new),
        ("in/put/data.csv", 3, true)
    );
    let file = fixture.data().join("in/put/data.csv");
    let owner = Owner::for_this_process();
    for (path, expected) in [("in", 0o700), ("in/put", 0o700), ("in/put/data.csv", 0o644)] {
        let path = fixture.data().join(path);
        let made = fs::metadata(&path).unwrap();
        assert_eq!(
            (mode(&path), made.uid(), made.gid()),
            (expected, owner.uid, owner.gid)
        );
    }
    upload(&workspace, "in/put/data.csv", "new").await.unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "new");
    assert_eq!(fixture.leftovers(), 0);
}

#[tokio::test]
async fn folders_that_nobody_may_write_to_are_in_nobodys_way() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    fs::create_dir(fixture.data().join("locked")).unwrap();
    for name in ["locked/file", "locked/new/file"] {
        set_mode(&fixture.data().join("locked"), 0o555);
        workspace
            .write_file(&path(name), Bytes::new(), Existing::Replace)
            .await
            .unwrap();
        set_mode(&fixture.data().join("locked"), 0o555);
        assert!(workspace.remove_file(&path(name), None).await.unwrap());
    }
}

#[tokio::test]
async fn links_are_replaced_and_not_followed() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    let outside = TempDir::new().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, fixture.data().join("a")).unwrap();
    upload(&workspace, "a", "mine").await.unwrap();
    assert_eq!(read(&workspace, "a").await.as_deref(), Some("mine"));
    symlink(outside.path(), fixture.data().join("folder")).unwrap();
    let below = upload(&workspace, "folder/new", "x").await.unwrap_err();
    insta::assert_snapshot!(below, @"filename has a folder part that is a file or a link: choose another folder");
    assert!(
        !workspace
            .remove_file(&path("folder/secret"), None)
            .await
            .unwrap()
    );
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fixture.leftovers(), 0);
}

#[tokio::test]
async fn folders_are_not_replaced() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    fs::create_dir_all(fixture.data().join("full/x")).unwrap();
    fs::create_dir(fixture.data().join("empty")).unwrap();
    for name in ["full", "empty"] {
        let error = upload(&workspace, name, "x").await.unwrap_err();
        assert!(matches!(error, WorkspaceError::IsDirectory), "{error:?}");
    }
    assert_eq!(fixture.leftovers(), 0);
}

#[tokio::test]
async fn quotas_hold_and_replacing_is_free() {
    let limits = WorkspaceLimits {
        quota_bytes: MIB,
        free_space_floor: 0,
        max_entries: 100,
        storage_bytes: None,
    };
    let fixture = Fixture::with(limits);
    let workspace = fixture.workspace().await;
    let large = "x".repeat(700 << 10);
    upload(&workspace, "a", &large).await.unwrap();
    let error = upload(&workspace, "b", &large).await.unwrap_err();
    assert!(
        matches!(error, WorkspaceError::QuotaExceeded { limit: MIB, .. }),
        "{error:?}"
    );
    upload(&workspace, "a", &large).await.unwrap();
    // It has another name, so its bytes would stay.
    fs::hard_link(fixture.data().join("a"), fixture.data().join("c")).unwrap();
    assert!(upload(&workspace, "a", &large).await.is_err());
    assert_eq!(
        (names(&workspace).await, fixture.leftovers()),
        (vec!["a".to_owned(), "c".to_owned()], 0)
    );
}

#[tokio::test]
async fn two_uploads_do_not_share_the_same_room() {
    let limits = WorkspaceLimits {
        quota_bytes: MIB,
        free_space_floor: 0,
        max_entries: 100,
        storage_bytes: None,
    };
    let fixture = Fixture::with(limits);
    let workspace = fixture.workspace().await;
    let large = "x".repeat(700 << 10);
    let all = futures::future::join_all(
        ["a", "b", "c", "d"].map(|name| upload(&workspace, name, &large)),
    )
    .await;
    assert_eq!(all.iter().filter(|upload| upload.is_ok()).count(), 1);
}

#[tokio::test]
async fn entries_are_limited() {
    let limits = WorkspaceLimits {
        quota_bytes: MIB,
        free_space_floor: 0,
        max_entries: 2,
        storage_bytes: None,
    };
    let fixture = Fixture::with(limits);
    let workspace = fixture.workspace().await;
    upload(&workspace, "a", "a").await.unwrap();
    // With its folder it would be one too many.
    let error = upload(&workspace, "sub/b", "b").await.unwrap_err();
    assert!(matches!(error, WorkspaceError::TooManyEntries { .. }));
    upload(&workspace, "b", "b").await.unwrap();
    // Replacing adds none.
    upload(&workspace, "b", "replaced").await.unwrap();
    insta::assert_snapshot!(upload(&workspace, "c", "c").await.unwrap_err(), @"the conversation has 2 files or more, or folders in folders too deep to count: delete some by a program or delete the conversation, or start a new one");
}

#[tokio::test]
async fn files_are_removed_by_name() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    upload(&workspace, "sub/a", "a").await.unwrap();
    assert!(workspace.remove_file(&path("sub/a"), None).await.unwrap());
    assert!(!workspace.remove_file(&path("sub/a"), None).await.unwrap());
    assert!(!workspace.remove_file(&path("no/a"), None).await.unwrap());
    let error = workspace.remove_file(&path("sub"), None).await.unwrap_err();
    assert!(matches!(error, WorkspaceError::IsDirectory));
}

#[tokio::test]
async fn a_slow_upload_holds_up_its_own_conversation_only() {
    let fixture = Fixture::new();
    let (slow, other) = (fixture.workspace().await, "b".repeat(64).parse().unwrap());
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let under_way = slow.store().upload(slow.key(), move |_| {
        // Ends when the sender goes.
        let _ = wait.recv();
        Ok(())
    });
    let others = async {
        let mut behind = Box::pin(upload(&slow, "a", "1"));
        let other = fixture.workspaces.create(&other).await.unwrap();
        let beside = tokio::select! {
            _ = &mut behind => panic!("two at a time in one conversation"),
            beside = upload(&other, "b", "2") => beside,
        };
        drop(go_on);
        (behind.await, beside)
    };
    // The slow one first, so that it has the turn.
    let (_, (behind, beside)) = tokio::join!(under_way, others);
    assert_eq!((behind.unwrap().size, beside.unwrap().size), (1, 1));
}

#[tokio::test]
async fn two_uploads_do_not_claim_the_same_free_space() {
    let fixture = Fixture::new();
    let store = fixture.workspace().await.store().clone();
    let free = store.check_space(0).unwrap().bytes;
    let first = store.claim_space(free / 3 * 2).unwrap();
    assert!(matches!(
        store.claim_space(free / 3 * 2),
        Err(WorkspaceError::DiskFull)
    ));
    drop(first);
    assert!(store.claim_space(free / 3 * 2).is_ok());
}
