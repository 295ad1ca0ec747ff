//! Files that get another name.

use rstest::rstest;

use super::*;

#[rstest]
#[tokio::test]
async fn folders_for_a_new_name_count_among_the_entries(#[values(false, true)] in_steps: bool) {
    let limits = WorkspaceLimits {
        quota_bytes: MIB,
        free_space_floor: 0,
        max_entries: 3,
        storage_bytes: None,
    };
    let fixture = Fixture::with(limits).moving(in_steps);
    let workspace = fixture.workspace().await;
    fs::write(fixture.data().join("a"), "a").unwrap();
    fs::create_dir(fixture.data().join("there")).unwrap();
    let rename = async |from: &str, to: &str| workspace.rename_file(&path(from), &path(to)).await;
    let error = rename("a", "one/two/a").await.unwrap_err();
    assert!(matches!(error, WorkspaceError::TooManyEntries { .. }));
    assert_eq!(names(&workspace).await, ["a"]);
    let entry = rename("a", "there/b").await.unwrap().unwrap();
    assert_eq!((entry.path.as_str(), entry.size), ("there/b", 1));
    assert_eq!(names(&workspace).await, ["there/b"]);
}

#[rstest]
#[tokio::test]
async fn locked_folders_are_in_nobodys_way(#[values(false, true)] in_steps: bool) {
    for fixture in [Fixture::new(), Fixture::part_by_part()] {
        let fixture = fixture.moving(in_steps);
        let workspace = fixture.workspace().await;
        for folder in ["from", "to"] {
            fs::create_dir(fixture.data().join(folder)).unwrap();
        }
        fs::write(fixture.data().join("from/a"), "a").unwrap();
        for folder in ["from", "to"] {
            set_mode(&fixture.data().join(folder), 0o500);
        }
        let renamed = workspace.rename_file(&path("from/a"), &path("to/b")).await;
        assert!(renamed.unwrap().is_some());
        assert_eq!(read(&workspace, "to/b").await.as_deref(), Some("a"));
    }
}
