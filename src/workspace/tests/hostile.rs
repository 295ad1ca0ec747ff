//! What programs plant: links, FIFOs, sockets, locked doors, strange names and dates.

use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{CWD, Mode, Timespec, Timestamps, mkfifoat, utimensat};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::*;

const LINKS: &[(&str, &str)] = &[
    ("passwd.txt", "/etc/passwd"),
    ("shadow.csv", "/etc/shadow"),
    ("rel.txt", "../../../../../../etc/passwd"),
    ("env.txt", "/proc/self/environ"),
    ("sib.txt", "../"),
    ("rootdir", "/"),
    ("self", "self"),
    ("loopa", "loopb"),
    ("loopb", "loopa"),
    ("dangling.csv", "/nonexistent"),
    ("sock.txt", "/var/run/docker.sock"),
    ("srvlog.txt", "/proc/1/fd/1"),
    ("fd0.txt", "/proc/self/fd/0"),
    ("zero.bin", "/dev/zero"),
    ("random.bin", "/dev/urandom"),
    ("ok_rel_link.txt", "real.txt"),
    ("sub/etc", "/etc"),
    ("here", "."),
];

/// Names of files that programs were seen to make. All can be made; one is not UTF-8.
const NAMES: &[&[u8]] = &[
    b"a b.csv",
    b"new\nline.txt",
    b"cr\r\nX-Evil: 1.txt",
    b"quo\"te.txt",
    b"apos'.txt",
    b"semi;colon.txt",
    b"pct%2e%2e%2fetc.txt",
    b"%00.txt",
    b"\xff\xfe-notutf8.bin",
    "\u{202e}txt.exe".as_bytes(),
    "A\u{30a}.txt".as_bytes(),
    "\u{c5}.txt".as_bytes(),
    "\u{1f4a9}.png".as_bytes(),
    b".hidden",
    b"..hidden",
    b"...",
    b"-rf",
    b"CON",
    b"NUL.txt",
    b"trail. ",
    b"back\\slash.txt",
    b"<img src=x onerror=alert(1)>.html",
    b"[x](javascript:alert(1)).md",
    b"?q=1#frag.txt",
    &[b'a'; 255],
    b" ",
    b"\t",
    b"\x7f",
    b"\x1b[31m.txt",
    b"con:stream",
    b"~",
    b"*",
    b"$(id)",
    b"`id`",
    b"{{7*7}}",
    b"favicon.ico",
    b"..%2f..%2fetc%2fpasswd",
];

fn plant(data: &Path) -> UnixListener {
    fs::write(data.join("real.txt"), "real").unwrap();
    fs::create_dir_all(data.join("sub")).unwrap();
    for (name, target) in LINKS {
        symlink(target, data.join(name)).unwrap();
    }
    for name in ["report.csv", "pipe.html"] {
        mkfifoat(CWD, data.join(name), Mode::from_raw_mode(0o666)).unwrap();
    }
    fs::create_dir_all(data.join("index.html/x")).unwrap();
    fs::create_dir_all(data.join("dir000/in")).unwrap();
    fs::write(data.join("dir000/in/file"), "hidden").unwrap();
    set_mode(&data.join("dir000"), 0);
    UnixListener::bind(data.join("unix.csv")).unwrap()
}

async fn only_regular_files_are_seen(fixture: Fixture) {
    let workspace = fixture.workspace().await;
    let _socket = plant(&fixture.data());
    let below_links = [
        "rootdir/etc/passwd",
        "sub/etc/passwd",
        "here/real.txt",
        "sib.txt/.tmp",
    ];
    let special = [
        "report.csv",
        "pipe.html",
        "unix.csv",
        "index.html",
        "index.html/x",
        "dir000",
        "real.txt/x",
        "no",
    ];
    let links = LINKS.iter().map(|(name, _)| *name);
    for name in links.chain(below_links).chain(special) {
        let opened = tokio::time::timeout(Duration::from_secs(1), read(&workspace, name)).await;
        assert_eq!(opened, Ok(None), "{name}");
    }
    assert_eq!(read(&workspace, "real.txt").await.as_deref(), Some("real"));
    assert_eq!(names(&workspace).await, ["dir000/in/file", "real.txt"]);
    let usage = workspace.usage().await.unwrap();
    assert_eq!((usage.entries, usage.complete), (28, true));
}

#[tokio::test]
async fn only_regular_files_are_seen_by_openat2() {
    only_regular_files_are_seen(Fixture::new()).await;
}

#[tokio::test]
async fn only_regular_files_are_seen_part_by_part() {
    only_regular_files_are_seen(Fixture::part_by_part()).await;
}

#[tokio::test]
async fn a_mount_is_not_entered() {
    // `/proc` stands for a mount, since tests cannot make one.
    let root = fs::File::open("/").unwrap();
    let whole = Opener::for_root(root.as_fd());
    for opener in [whole, whole.part_by_part()] {
        let opened = opener.file(root.as_fd(), [&b"proc"[..], b"version"]);
        assert_eq!(opened.unwrap_err(), rustix::io::Errno::XDEV, "{opener:?}");
    }
}

#[tokio::test]
async fn strange_names_are_listed_and_read() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    for name in NAMES {
        fs::write(fixture.data().join(OsStr::from_bytes(name)), name).unwrap();
    }
    // Nothing of that name counts as a file of the conversation.
    fs::write(fixture.data().join(PACKAGES), "").unwrap();
    let listing = workspace.list().await.unwrap();
    assert_eq!(
        (listing.files.len(), listing.skipped, listing.truncated),
        (NAMES.len() - 1, 1, None)
    );
    assert!(
        listing
            .files
            .is_sorted_by_key(|file| file.path.as_str().to_owned())
    );
    for file in listing.files {
        assert_eq!(
            read(&workspace, file.path.as_str()).await.as_deref(),
            Some(file.path.as_str())
        );
    }
}

#[tokio::test]
async fn folders_without_a_readable_name_are_skipped() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    let folder = fixture.data().join(OsStr::from_bytes(b"\xff"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a"), [0; 5_000]).unwrap();
    assert_eq!(workspace.list().await.unwrap().skipped, 1);
    let usage = workspace.usage().await.unwrap();
    assert_eq!(usage.entries, 2);
    assert!(usage.bytes >= 5_000);
}

#[tokio::test]
async fn dates_that_cannot_be_written_are_left_out() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    for (seconds, expected) in [
        (-1, false),
        (-(1 << 31), false),
        (0, true),
        (1_800_000_000, true),
    ] {
        fs::write(fixture.data().join("a"), "a").unwrap();
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        utimensat(
            CWD,
            fixture.data().join("a"),
            &times,
            rustix::fs::AtFlags::empty(),
        )
        .unwrap();
        let listed = workspace.list().await.unwrap().files[0].modified;
        let opened = workspace
            .open_file(&path("a"))
            .await
            .unwrap()
            .unwrap()
            .modified;
        let date = u64::try_from(seconds)
            .ok()
            .map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!((listed, opened), (date, date));
        assert_eq!(listed.is_some(), expected);
    }
}

#[tokio::test]
async fn a_shut_workspace_is_opened_again() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    fs::write(fixture.data().join("a"), "a").unwrap();
    set_mode(&fixture.data(), 0);
    assert_eq!(names(&workspace).await, ["a"]);
    set_mode(&fixture.data(), 0);
    assert!(
        fixture
            .workspaces
            .find(&fixture.key)
            .await
            .unwrap()
            .is_some()
    );
    set_mode(&fixture.data(), 0o1777);
    fixture.workspace().await;
    assert_eq!(mode(&fixture.data()), 0o700);
    set_mode(&fixture.data(), 0);
    assert!(fixture.workspaces.remove(&fixture.key).await.unwrap());
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(fixture.leftovers(), 0);
}

/// Runs `work` as a server that is not root would: nothing is accessible merely because we are root.
fn without_privileges<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    let dropped = || {
        set_capabilities(None, none).unwrap();
        work()
    };
    thread::scope(|scope| scope.spawn(dropped).join().unwrap())
}

/// As `chmod -R 644` leaves them.
#[test]
fn what_is_in_a_folder_that_only_gives_names_counts() {
    for mode in [0o644, 0o600, 0o400, 0o200, 0] {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("a/b");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("c"), vec![1; 100_000]).unwrap();
        set_mode(&folder, mode);
        set_mode(&top.path().join("a"), mode);
        let dir = fs::File::open(top.path()).unwrap();
        let opener = Opener::for_root(dir.as_fd());
        let usage = without_privileges(|| usage::measure(opener, dir.as_fd(), 100)).unwrap();
        assert!(usage.bytes > 100_000, "{mode:o}: {usage:?}");
        assert_eq!(usage.entries, 3, "{mode:o}");
    }
}

#[test]
fn a_file_that_its_owner_may_not_read_is_read() {
    let top = tempfile::tempdir().unwrap();
    let dir = fs::File::open(top.path()).unwrap();
    let whole = Opener::for_root(dir.as_fd());
    for opener in [whole, whole.part_by_part()] {
        for shut in [0, 0o200] {
            let file = top.path().join("file");
            fs::write(&file, "x").unwrap();
            set_mode(&file, shut);
            let open = || opener.file(dir.as_fd(), [&b"file"[..]]);
            let opened = without_privileges(|| fs::File::from(open().unwrap()));
            assert_eq!(std::io::read_to_string(opened).unwrap(), "x");
            assert_eq!(mode(&file), shut | 0o400);
        }
        // What is not a file stays as it is.
        let fifo = top.path().join("fifo");
        let _ = mkfifoat(CWD, &fifo, Mode::empty());
        let opened = without_privileges(|| opener.file(dir.as_fd(), [&b"fifo"[..]]));
        assert_eq!(opened.unwrap_err(), rustix::io::Errno::ACCESS);
        assert_eq!(mode(&fifo), 0);
    }
}
