//! Names that are moved, in one step and in several.

use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::sync::Barrier;
use std::thread;

use rstest::rstest;
use rustix::io::Errno;

use super::races::Meanwhile;
use super::*;

fn moves(in_steps: bool) -> Moves {
    let mut moves = Moves::default();
    moves.is_plain = in_steps;
    moves
}

/// Calls `act` with 0 to 7 at once, and returns what came of each.
fn all_at_once<T: Send>(act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(8);
    let act = |number| {
        start.wait();
        act(number)
    };
    let act = &act;
    thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|number| scope.spawn(move || act(number)))
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

#[rstest]
fn one_of_many_files_gets_a_name(#[values(false, true)] in_steps: bool) {
    let moves = moves(in_steps);
    for _ in 0..50 {
        let root = TempDir::new().unwrap();
        let dir = fs::File::open(root.path()).unwrap();
        for number in 0..8 {
            let name = number.to_string();
            fs::write(root.path().join(&name), name).unwrap();
        }
        let moved = all_at_once(|number| {
            let name = number.to_string();
            moves.move_file((dir.as_fd(), name.as_str()), (dir.as_fd(), "to"))
        });
        let first = moved.iter().position(Result::is_ok).unwrap();
        let content = fs::read_to_string(root.path().join("to")).unwrap();
        assert_eq!(content, first.to_string());
        for (number, moved) in moved.iter().enumerate() {
            let stays = root.path().join(number.to_string()).exists();
            assert_eq!(stays, number != first);
            assert!(number == first || *moved == Err(Errno::EXIST), "{moved:?}");
        }
        assert_eq!(fs::metadata(root.path().join("to")).unwrap().nlink(), 1);
    }
}

#[rstest]
fn a_folder_takes_the_place_of_no_other(#[values(false, true)] in_steps: bool) {
    let moves = moves(in_steps);
    for _ in 0..50 {
        let root = TempDir::new().unwrap();
        let dir = fs::File::open(root.path()).unwrap();
        for number in (0..8).step_by(2) {
            let folder = root.path().join(number.to_string());
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("moved"), "").unwrap();
        }
        // Half of them move one there, the others make one, and what all find then is the one that stays.
        let seen = all_at_once(|number| {
            let name = number.to_string();
            let is_first = if number % 2 == 0 {
                let from = (dir.as_fd(), name.as_str());
                moves.move_folder(from, (dir.as_fd(), "to")).is_ok()
            } else {
                fs::create_dir(root.path().join("to")).is_ok()
            };
            let _settled = moves.settled();
            let seen = fs::metadata(root.path().join("to")).unwrap().ino();
            (is_first, number, seen)
        });
        let there = fs::metadata(root.path().join("to")).unwrap().ino();
        assert!(seen.iter().all(|(.., seen)| *seen == there), "{seen:?}");
        let first: Vec<_> = seen.iter().filter(|(is_first, ..)| *is_first).collect();
        assert_eq!(first.len(), 1, "{seen:?}");
        let is_moved = root.path().join("to/moved").exists();
        assert_eq!(is_moved, first[0].1 % 2 == 0);
    }
}

#[rstest]
fn a_folder_that_is_not_there_leaves_nothing(#[values(false, true)] in_steps: bool) {
    let root = TempDir::new().unwrap();
    let dir = fs::File::open(root.path()).unwrap();
    let at = |name| (dir.as_fd(), name);
    let moves = moves(in_steps);
    assert_eq!(moves.move_folder(at("a"), at("b")), Err(Errno::NOENT));
    assert_eq!(moves.move_file(at("a"), at("b")), Err(Errno::NOENT));
    assert_eq!(moves.exchange(at("a"), at("b")), Err(Errno::NOENT));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[rstest]
fn an_exchange_that_fails_changes_nothing(#[values(false, true)] in_steps: bool) {
    let root = TempDir::new().unwrap();
    let dir = fs::File::open(root.path()).unwrap();
    let at = |name| (dir.as_fd(), name);
    let moves = moves(in_steps);
    fs::create_dir_all(root.path().join("old/sub")).unwrap();
    assert_eq!(moves.exchange(at("new"), at("old")), Err(Errno::NOENT));
    assert!(root.path().join("old/sub").exists());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    fs::write(root.path().join("new"), "new").unwrap();
    moves.exchange(at("new"), at("old")).unwrap();
    assert!(root.path().join("new/sub").exists());
    assert_eq!(fs::read(root.path().join("old")).unwrap(), b"new");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
}

#[rstest]
#[tokio::test]
async fn what_a_program_puts_there_is_moved_within_the_workspace(
    #[values(false, true)] in_steps: bool,
) {
    let fixture = Fixture::new().moving(in_steps);
    let workspace = fixture.workspace().await;
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("a"), "secret").unwrap();
    let (data, target) = (fixture.data(), outside.path().join("a"));
    let busy = Meanwhile::repeat(move || {
        let from = data.join("from");
        fs::write(data.join("file"), "file").unwrap();
        let _ = fs::rename(data.join("file"), &from);
        let _ = symlink(&target, data.join("link"));
        let _ = fs::rename(data.join("link"), &from);
        let _ = fs::remove_file(&from);
        let _ = fs::create_dir(&from);
        let _ = fs::remove_dir(&from);
    });
    let (mut moved, mut number) = (0, 0);
    // On a busy machine the program takes a while to get its turn.
    while number < 3_000 || (moved == 0 && number < 300_000) {
        number += 1;
        let to = path(&format!("to/{number}"));
        match workspace.rename_file(&path("from"), &to).await {
            Ok(renamed) => moved += usize::from(renamed.is_some()),
            Err(error) => assert!(matches!(error, WorkspaceError::IsDirectory), "{error:?}"),
        }
    }
    drop(busy);
    assert!(moved > 0);
    let secret = fs::read_to_string(outside.path().join("a")).unwrap();
    assert_eq!(secret, "secret");
    assert_eq!(fs::metadata(outside.path().join("a")).unwrap().nlink(), 1);
}
