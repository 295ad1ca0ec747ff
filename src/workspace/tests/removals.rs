//! Deletion of whole conversations, and what is left of earlier servers.

use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _, symlink};

use super::listings::make_deep;
use super::*;

async fn remove(fixture: &Fixture) {
    assert!(fixture.workspaces.remove(&fixture.key).await.unwrap());
    assert!(!fixture.data().exists());
    fixture.workspaces.wait_for_background_work().await;
}

#[tokio::test]
async fn a_removed_workspace_is_gone() {
    let fixture = Fixture::new();
    assert!(!fixture.workspaces.remove(&fixture.key).await.unwrap());
    assert_eq!(fixture.leftovers(), 0);
    fixture.workspace().await;
    remove(&fixture).await;
    assert_eq!(fixture.leftovers(), 0);
    assert!(
        fixture
            .workspaces
            .find(&fixture.key)
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(names(&fixture.workspace().await).await, [""; 0]);
}

#[tokio::test]
async fn trees_of_any_shape_are_deleted() {
    let fixture = Fixture::new();
    fixture.workspace().await;
    let data = fixture.data();
    make_deep(&data, 3_000);
    for number in 0..2_000 {
        fs::write(data.join(format!("file{number}")), "").unwrap();
        fs::create_dir(data.join(format!("folder{number}"))).unwrap();
    }
    for number in 0..50 {
        make_deep(&data.join(format!("folder{number}")), 50);
    }
    for (name, mode) in [("shut/in/er", 0), ("locked/in/er", 0o500)] {
        fs::create_dir_all(data.join(name)).unwrap();
        fs::write(data.join(name).join("file"), "").unwrap();
        for folder in data.join(name).ancestors().take(3) {
            set_mode(folder, mode);
        }
    }
    remove(&fixture).await;
    assert_eq!(fixture.leftovers(), 0);
}

#[tokio::test]
async fn a_large_tree_keeps_no_other_waiting() {
    for _ in 0..5 {
        if let Some(is_large) = is_the_last_tree_the_large_one().await {
            assert!(is_large);
            return;
        }
    }
    panic!("both were always gone before anybody looked");
}

/// `None` on a machine so busy that both are gone at the first look after one is.
async fn is_the_last_tree_the_large_one() -> Option<bool> {
    let fixture = Fixture::new();
    let small = "f".repeat(64).parse().unwrap();
    fixture.workspace().await;
    fixture.workspaces.create(&small).await.unwrap();
    for number in 0..30_000 {
        fs::write(fixture.data().join(number.to_string()), "").unwrap();
    }
    // It keeps its number under the name that it has while it is deleted.
    let large = fs::metadata(fixture.data()).unwrap().ino();
    for key in [&fixture.key, &small] {
        assert!(fixture.workspaces.remove(key).await.unwrap());
    }
    let left = loop {
        let left = fs::read_dir(fixture.root.path().join(".tmp")).unwrap();
        let left: Vec<_> = left.map(|tree| tree.unwrap().ino()).collect();
        if left.len() < 2 {
            break left;
        }
        tokio::task::yield_now().await;
    };
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(fixture.leftovers(), 0);
    left.first().map(|last| *last == large)
}

#[tokio::test]
async fn deletion_does_not_follow_links() {
    let fixture = Fixture::new();
    fixture.workspace().await;
    let outside = TempDir::new().unwrap();
    fs::create_dir(outside.path().join("kept")).unwrap();
    fs::write(outside.path().join("kept/file"), "").unwrap();
    fs::create_dir(fixture.data().join("sub")).unwrap();
    for name in ["a", "sub/a"] {
        symlink(outside.path(), fixture.data().join(name)).unwrap();
    }
    remove(&fixture).await;
    assert_eq!(fixture.leftovers(), 0);
    assert!(outside.path().join("kept/file").exists());
}

#[tokio::test]
async fn leftovers_of_a_dead_server_are_cleared() {
    let Fixture {
        root, workspaces, ..
    } = Fixture::new();
    let (owner, limits) = (Owner::for_this_process(), *workspaces.limits());
    let private = root.path().join(".tmp");
    fs::write(private.join("upload"), "half").unwrap();
    fs::create_dir_all(private.join("staging/0/deep/er")).unwrap();
    // The first server is still there.
    let second = Workspaces::open(root.path(), owner, limits).unwrap();
    assert_eq!(fs::read_dir(&private).unwrap().count(), 2);
    drop((workspaces, second));
    let _third = Workspaces::open(root.path(), owner, limits).unwrap();
    assert_eq!(fs::read_dir(&private).unwrap().count(), 0);
}

#[tokio::test]
async fn an_open_workspace_survives_its_removal_without_harm() {
    let fixture = Fixture::new();
    let old = fixture.workspace().await;
    fs::write(fixture.data().join("a"), "a").unwrap();
    remove(&fixture).await;
    assert_eq!(names(&old).await, [""; 0]);
    assert!(old.open_file(&path("a")).await.unwrap().is_none());
    // An upload that was on its way when the conversation was deleted starts it anew.
    old.write_file(&path("b"), Bytes::from("b"), Existing::Replace)
        .await
        .unwrap();
    assert_eq!(names(&old).await, [""; 0]);
    assert_eq!(names(&fixture.workspace().await).await, ["b"]);
    assert_eq!(fixture.leftovers(), 0);
}
