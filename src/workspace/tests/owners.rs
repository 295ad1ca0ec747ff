//! Users of their own for conversations. All of it needs root, as the setting does.

use std::collections::HashSet;
use std::os::unix::fs::symlink;
use std::thread;

use rstest::rstest;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, RenameFlags, Uid, chownat, makedev, mknodat, renameat_with,
};

use super::races::Meanwhile;
use super::*;
use crate::config::UidRange;

const USERS: UidRange = UidRange {
    first: 70_000,
    last: 70_999,
};

const LIMITS: WorkspaceLimits = WorkspaceLimits {
    quota_bytes: 64 * MIB,
    free_space_floor: 0,
    max_entries: 1_000,
    storage_bytes: None,
};

fn key(number: u32) -> ConversationKey {
    format!("{number:064x}").parse().unwrap()
}

/// A server on a root.
fn server(root: &TempDir, users: UidRange) -> Workspaces {
    let workspaces = Workspaces::open(root.path(), Owners::Own(users), LIMITS).unwrap();
    workspaces.prove_owners().unwrap();
    workspaces
}

/// A server on the same root without the setting.
fn server_of_one(root: &TempDir) -> Workspaces {
    Workspaces::open(root.path(), Owner::for_this_process(), LIMITS).unwrap()
}

fn owner(path: &Path) -> (u32, u32) {
    let stat = fs::symlink_metadata(path).unwrap();
    (stat.uid(), stat.gid())
}

/// Gives everything below a directory to a user, as if its programs had made it.
fn give(path: &Path, uid: u32) {
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    let it = AtFlags::SYMLINK_NOFOLLOW;
    chownat(CWD, path, Some(user), Some(group), it).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), uid);
        }
    }
}

async fn user(workspaces: &Workspaces, key: &ConversationKey) -> u32 {
    let owner = workspaces.create(key).await.unwrap().owner().unwrap();
    assert_eq!(owner.uid, owner.gid);
    owner.uid
}

#[rstest]
#[tokio::test]
async fn each_conversation_has_a_user_for_its_life(#[values(false, true)] in_steps: bool) {
    let root = TempDir::new().unwrap();
    let mut workspaces = server(&root, USERS);
    if in_steps {
        workspaces = workspaces.moving_in_steps();
    }
    let first = user(&workspaces, &key(1)).await;
    let slot = workspaces.new_slot().await.unwrap();
    let of_slot = slot.owner().uid;
    workspaces.adopt(slot, &key(2)).await.unwrap().unwrap();
    let second = user(&workspaces, &key(2)).await;
    assert_eq!(second, of_slot, "its sandbox has that user");
    let third = user(&workspaces, &key(3)).await;
    let all = HashSet::from([first, second, third]);
    assert!(all.len() == 3 && all.iter().all(|uid| USERS.contains(*uid)));
    // What the server writes is the conversation's, folders on the way too.
    let workspace = workspaces.create(&key(2)).await.unwrap();
    let (name, content) = (path("sub/a.txt"), Bytes::from("a"));
    let put = workspace.write_file(&name, content, Existing::Replace);
    put.await.unwrap();
    let data = root.path().join(key(2).as_str());
    for made in [data.clone(), data.join("sub"), data.join("sub/a.txt")] {
        assert_eq!(owner(&made), (second, second), "{made:?}");
    }
    assert_eq!(mode(&data), 0o700);
    // After a restart nothing is known but the directories.
    drop(workspaces);
    let workspaces = server(&root, USERS);
    assert!(!all.contains(&user(&workspaces, &key(4)).await));
    for (number, uid) in [(3, third), (1, first), (2, second)] {
        assert_eq!(user(&workspaces, &key(number)).await, uid);
    }
}

#[tokio::test]
async fn many_who_use_a_conversation_at_once_give_it_one_user() {
    let root = TempDir::new().unwrap();
    let data = root.path().join(key(1).as_str());
    fs::create_dir(&data).unwrap();
    for number in 0..200 {
        fs::write(data.join(number.to_string()), "").unwrap();
    }
    give(&data, 1_000);
    let workspaces = server(&root, USERS);
    let key = key(1);
    let users = futures::future::join_all((0..64).map(|_| user(&workspaces, &key))).await;
    assert!(users.iter().all(|uid| *uid == users[0]), "{users:?}");
    for entry in fs::read_dir(&data).unwrap() {
        assert_eq!(owner(&entry.unwrap().path()), (users[0], users[0]));
    }
}

#[tokio::test]
async fn users_of_servers_on_one_root_differ() {
    let root = TempDir::new().unwrap();
    let servers = [server(&root, USERS), server(&root, USERS)];
    let mut users = HashSet::new();
    for number in 0..300 {
        for (which, workspaces) in (0..).zip(&servers) {
            assert!(users.insert(user(workspaces, &key(2 * number + which)).await));
        }
    }
    // Either knows what the other made, and leaves it as it is.
    for number in 0..600 {
        let workspaces = &servers[usize::from(number % 2 == 0)];
        let before = owner(&root.path().join(key(number).as_str())).0;
        assert_eq!(user(workspaces, &key(number)).await, before);
    }
}

#[tokio::test]
async fn when_all_users_are_taken_that_is_told_and_a_deletion_helps() {
    let root = TempDir::new().unwrap();
    let users = UidRange {
        first: 70_000,
        last: 70_002,
    };
    let workspaces = server(&root, users);
    let slot = workspaces.new_slot().await.unwrap();
    let taken = [
        user(&workspaces, &key(1)).await,
        user(&workspaces, &key(2)).await,
    ];
    for _ in 0..2 {
        let refused = workspaces.create(&key(3)).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "every user id of SANDBOX_UIDS=70000-70002 belongs to a conversation: delete conversations that are over, \
             or ask the operator for a wider range"
        );
        assert!(workspaces.new_slot().await.is_err());
    }
    drop(slot);
    assert!(!taken.contains(&user(&workspaces, &key(3)).await));
    assert!(workspaces.remove(&key(1)).await.unwrap());
    workspaces.wait_for_background_work().await;
    assert_eq!(user(&workspaces, &key(4)).await, taken[0]);
    // What another server deletes is found as well.
    assert!(workspaces.create(&key(5)).await.is_err());
    let other = server_of_one(&root);
    assert!(other.remove(&key(2)).await.unwrap());
    other.wait_for_background_work().await;
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_mins(1)).await;
    tokio::time::resume();
    assert_eq!(user(&workspaces, &key(5)).await, taken[1]);
}

#[tokio::test]
async fn a_copy_of_a_directory_gets_a_user_of_its_own() {
    let root = TempDir::new().unwrap();
    let workspaces = server(&root, USERS);
    let first = user(&workspaces, &key(1)).await;
    // As it comes out of a backup.
    let copy = root.path().join(key(2).as_str());
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("a.txt"), "a").unwrap();
    give(&copy, first);
    let second = user(&workspaces, &key(2)).await;
    assert_ne!(first, second);
    assert_eq!(owner(&copy.join("a.txt")), (second, second));
    assert_eq!(user(&workspaces, &key(1)).await, first);
}

/// A conversation's directory from before the setting, with all that programs may leave there. Returns a file outside.
fn older(data: &Path, outside: &Path) -> PathBuf {
    fs::create_dir_all(data.join("sub/deep")).unwrap();
    fs::write(data.join("sub/deep/a.txt"), "a").unwrap();
    fs::write(data.join("closed"), "c").unwrap();
    set_mode(&data.join("closed"), 0);
    fs::write(data.join("two"), "t").unwrap();
    fs::hard_link(data.join("two"), data.join("sub/names")).unwrap();
    let secret = outside.join("secret");
    fs::write(&secret, "s").unwrap();
    symlink(&secret, data.join("link")).unwrap();
    symlink(outside, data.join("folder")).unwrap();
    mknodat(CWD, data.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    give(data, 1_000);
    set_mode(data, 0o755);
    set_mode(&data.join("sub"), 0);
    // After the owner, since its change removes the mode.
    fs::write(data.join("tool"), "x").unwrap();
    give(&data.join("tool"), 1_000);
    set_mode(&data.join("tool"), 0o4755);
    // By somebody who may write to the directory from outside of any container.
    fs::hard_link(&secret, data.join("theirs")).unwrap();
    let device = makedev(1, 3);
    mknodat(
        CWD,
        data.join("null"),
        FileType::CharacterDevice,
        Mode::RWXU,
        device,
    )
    .unwrap();
    secret
}

const OURS: [&str; 11] = [
    "",
    "closed",
    "fifo",
    "folder",
    "link",
    "sub",
    "sub/deep",
    "sub/deep/a.txt",
    "sub/names",
    "tool",
    "two",
];

fn assert_moved(data: &Path, secret: &Path, uid: u32) {
    for name in OURS {
        assert_eq!(owner(&data.join(name)), (uid, uid), "{name}");
    }
    assert_eq!((mode(data), mode(&data.join("tool"))), (0o700, 0o755));
    assert_eq!(owner(secret), (0, 0), "it has a name elsewhere");
    assert_eq!(owner(secret.parent().unwrap()), (0, 0));
    assert_eq!(owner(&data.join("null")), (0, 0));
}

#[tokio::test]
async fn a_directory_from_before_is_given_with_what_is_its_own() {
    let root = TempDir::new().unwrap();
    let (data, outside) = (
        root.path().join(key(1).as_str()),
        root.path().join("outside"),
    );
    fs::create_dir(&outside).unwrap();
    let secret = older(&data, &outside);
    let workspaces = server(&root, USERS);
    // Looking changes nothing.
    assert!(workspaces.find(&key(1)).await.unwrap().is_some());
    assert_eq!(owner(&data), (1_000, 1_000));
    let uid = user(&workspaces, &key(1)).await;
    assert!(USERS.contains(uid));
    assert_moved(&data, &secret, uid);
    assert_eq!(user(&workspaces, &key(1)).await, uid);
    drop(workspaces);
    // Another range, and then none.
    let others = UidRange {
        first: 80_000,
        last: 80_999,
    };
    let uid = user(&server(&root, others), &key(1)).await;
    assert!(others.contains(uid));
    assert_moved(&data, &secret, uid);
    assert_eq!(user(&server_of_one(&root), &key(1)).await, 1_000);
    assert_moved(&data, &secret, 1_000);
}

#[tokio::test]
async fn a_move_that_was_interrupted_goes_on() {
    let root = TempDir::new().unwrap();
    let data = root.path().join(key(1).as_str());
    fs::create_dir_all(data.join("sub")).unwrap();
    for number in 0..3_000 {
        fs::write(data.join("sub").join(number.to_string()), "").unwrap();
    }
    give(&data, 1_000);
    let workspaces = server(&root, USERS);
    let refused = workspaces.create(&key(1)).await;
    assert!(matches!(
        refused,
        Err(WorkspaceError::TooManyEntries { .. })
    ));
    let (uid, group) = owner(&data);
    assert!(USERS.contains(uid) && group == 0, "{uid}:{group}");
    drop(workspaces);
    for number in 0..2_000 {
        fs::remove_file(data.join("sub").join(number.to_string())).unwrap();
    }
    assert_eq!(user(&server(&root, USERS), &key(1)).await, uid);
    assert_eq!(owner(&data), (uid, uid));
    for number in 2_000..3_000 {
        assert_eq!(
            owner(&data.join("sub").join(number.to_string())),
            (uid, uid)
        );
    }
}

/// A program of a server that is being replaced may go on while its directory is moved.
#[tokio::test]
async fn nothing_outside_is_given_while_a_program_swaps_folders() {
    let root = TempDir::new().unwrap();
    let outside = root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for number in 0..50 {
        fs::write(outside.join(number.to_string()), "").unwrap();
    }
    let data = root.path().join(key(1).as_str());
    for folder in 0..8 {
        let folder = data.join(folder.to_string());
        fs::create_dir_all(&folder).unwrap();
        for number in 0..50 {
            fs::write(folder.join(number.to_string()), "").unwrap();
        }
    }
    give(&data, 1_000);
    symlink(&outside, data.join("link")).unwrap();
    let busy = Meanwhile::repeat({
        let data = data.clone();
        let mut number = 0;
        move || {
            number = (number + 1) % 8;
            let (folder, link) = (data.join(number.to_string()), data.join("link"));
            let exchange = RenameFlags::EXCHANGE;
            for _ in 0..2 {
                let _ = renameat_with(CWD, &folder, CWD, &link, exchange);
            }
        }
    });
    for round in 0..40 {
        let first = 70_000 + round * 1_000;
        let users = UidRange {
            first,
            last: first + 999,
        };
        let uid = user(&server(&root, users), &key(1)).await;
        assert!(users.contains(uid));
        thread::yield_now();
    }
    drop(busy);
    for number in 0..50 {
        assert_eq!(owner(&outside.join(number.to_string())), (0, 0));
    }
    assert_eq!(owner(&outside), (0, 0));
}
