//! Programs that change things exactly while we look at them.

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::*;

const SECRET: &str = "root:x:0:0";

/// Does something over and over in a thread of its own, as long as it lives.
pub(super) struct Meanwhile {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Meanwhile {
    pub(super) fn repeat(mut action: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                action();
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Directory with a file `r.txt` that nobody may read.
fn outside() -> TempDir {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("r.txt"), SECRET).unwrap();
    outside
}

/// Alternately puts a file and a link to `target` in place of `data/r.txt`.
fn swap_file(data: PathBuf, target: PathBuf) -> Meanwhile {
    Meanwhile::repeat(move || {
        fs::write(data.join("f"), "benign").unwrap();
        fs::rename(data.join("f"), data.join("r.txt")).unwrap();
        symlink(&target, data.join("l")).unwrap();
        fs::rename(data.join("l"), data.join("r.txt")).unwrap();
    })
}

/// The same with the folder `data/sub`, where a folder has to be moved out of the way.
fn swap_folder(data: PathBuf, target: PathBuf) -> Meanwhile {
    fs::create_dir(data.join("sub")).unwrap();
    fs::write(data.join("sub/r.txt"), "benign").unwrap();
    Meanwhile::repeat(move || {
        // An upload may have made a folder of this name in the meantime.
        let _ = fs::remove_dir_all(data.join("aside"));
        let _ = fs::rename(data.join("sub"), data.join("aside"));
        let _ = symlink(&target, data.join("sub"));
        let _ = fs::remove_file(data.join("sub"));
        let _ = fs::rename(data.join("aside"), data.join("sub"));
    })
}

async fn nothing_leaks(fixture: Fixture, name: &str, opens: usize) {
    let workspace = fixture.workspace().await;
    let outside = outside();
    let _file = swap_file(fixture.data(), outside.path().join("r.txt"));
    let _folder = swap_folder(fixture.data(), outside.path().to_owned());
    let (mut benign, mut tried) = (0, 0);
    // A busy machine may give the swapping thread its turn at the wrong moments only.
    while tried < opens || (benign == 0 && tried < 50 * opens) {
        tried += 1;
        match read(&workspace, name).await.as_deref() {
            None => {}
            Some("benign") => benign += 1,
            Some(leaked) => panic!("{leaked}"),
        }
    }
    assert!(benign > 0);
}

#[tokio::test]
async fn a_swapped_file_never_leaks() {
    nothing_leaks(Fixture::new(), "r.txt", 20_000).await;
}

#[tokio::test]
async fn a_swapped_folder_never_leaks() {
    nothing_leaks(Fixture::new(), "sub/r.txt", 5_000).await;
}

#[tokio::test]
async fn nothing_leaks_part_by_part() {
    nothing_leaks(Fixture::part_by_part(), "sub/r.txt", 5_000).await;
}

#[tokio::test]
async fn uploads_never_write_outside() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    let outside = outside();
    let _file = swap_file(fixture.data(), outside.path().join("r.txt"));
    let _folder = swap_folder(fixture.data(), outside.path().to_owned());
    for number in 0..500 {
        for name in ["r.txt", "sub/r.txt", &format!("sub/new{number}")] {
            let _ = workspace
                .write_file(&path(name), Bytes::from("benign"), Existing::Replace)
                .await;
        }
        let _ = workspace.remove_file(&path("sub/r.txt"), None).await;
    }
    assert_eq!(
        fs::read_to_string(outside.path().join("r.txt")).unwrap(),
        SECRET
    );
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fixture.leftovers(), 0);
}

/// Takes the folder `data/sub` away over and over, with a pause in between.
fn remove_folder(data: PathBuf, pause: Duration) -> Meanwhile {
    Meanwhile::repeat(move || {
        let _ = fs::rename(data.join("sub"), data.join("aside"));
        let _ = fs::remove_dir_all(data.join("aside"));
        thread::sleep(pause);
    })
}

/// Uploads files into a folder that is taken away meanwhile, and returns those that were refused.
async fn refused_while_folders_go(pause: Duration) -> Vec<WorkspaceError> {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    let _folder = remove_folder(fixture.data(), pause);
    let mut refused = Vec::new();
    for number in 0..2_000 {
        let existing = if number % 2 == 0 {
            Existing::Replace
        } else {
            Existing::Keep
        };
        let name = path(&format!("sub/inner/{number}"));
        let placed = workspace.write_file(&name, Bytes::new(), existing).await;
        refused.extend(placed.err());
    }
    assert_eq!(fixture.leftovers(), 0);
    refused
}

#[tokio::test]
async fn uploads_find_their_way_though_folders_come_and_go() {
    let refused = refused_while_folders_go(Duration::from_millis(1)).await;
    assert!(refused.is_empty(), "{refused:?}");
}

/// They do not try forever, and say why they gave up.
#[tokio::test]
async fn uploads_are_told_when_folders_go_as_fast_as_they_come() {
    let refused = refused_while_folders_go(Duration::ZERO).await;
    assert!(refused.len() < 2_000);
    let is_told = |error: &WorkspaceError| matches!(error, WorkspaceError::FoldersVanish);
    assert!(refused.iter().all(is_told), "{refused:?}");
}

#[tokio::test]
async fn walks_never_lead_outside_and_never_fail() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().await;
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), SECRET).unwrap();
    // Enough files to take some time, so that folders change between reading their names and their contents.
    for number in 0..300 {
        fs::write(fixture.data().join(number.to_string()), "").unwrap();
    }
    let _folder = swap_folder(fixture.data(), outside.path().to_owned());
    for _ in 0..1_000 {
        let listing = workspace.list().await.unwrap();
        assert!(
            listing
                .files
                .iter()
                .all(|file| !file.path.as_str().contains("secret")),
            "{listing:?}"
        );
        assert!(workspace.usage().await.unwrap().complete);
    }
}

/// Programs may make a hundred times as many entries before their deletion is given up.
const FEW_ENTRIES: WorkspaceLimits = WorkspaceLimits {
    quota_bytes: 64 * MIB,
    free_space_floor: 0,
    max_entries: 10,
    storage_bytes: None,
};

/// What is left goes at the next start.
fn nothing_stays_after_a_start(fixture: Fixture) {
    let Fixture {
        root, workspaces, ..
    } = fixture;
    let owner = Owner::for_this_process();
    drop(workspaces);
    let limits = WorkspaceLimits {
        max_entries: 100_000,
        ..FEW_ENTRIES
    };
    Workspaces::open(root.path(), owner, limits).unwrap();
    assert_eq!(fs::read_dir(root.path().join(".tmp")).unwrap().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn deletion_ends_though_programs_refill_as_fast() {
    let fixture = Fixture::with(FEW_ENTRIES);
    fixture.workspace().await;
    fs::create_dir(fixture.data().join("sub")).unwrap();
    let busy: Vec<_> = (0..2)
        .map(|_| {
            let dir = fs::File::open(fixture.data().join("sub")).unwrap();
            // Checking the number first leaves the lock of the directory to the deletion.
            Meanwhile::repeat(move || {
                if dir.metadata().unwrap().nlink() < 1_000 {
                    let name = rand::random::<u16>().to_string();
                    let _ = rustix::fs::mkdirat(&dir, name, rustix::fs::Mode::RWXU);
                }
            })
        })
        .collect();
    while fs::metadata(fixture.data().join("sub")).unwrap().nlink() < 1_000 {
        thread::yield_now();
    }
    assert!(fixture.workspaces.remove(&fixture.key).await.unwrap());
    fixture.workspaces.wait_for_background_work().await;
    drop(busy);
    nothing_stays_after_a_start(fixture);
}

#[tokio::test(start_paused = true)]
async fn deletion_gets_along_with_a_busy_program() {
    let fixture = Fixture::with(FEW_ENTRIES);
    let workspace = fixture.workspace().await;
    let outside = outside();
    let data = fixture.data();
    fs::create_dir_all(data.join("a/b/c")).unwrap();
    let target = outside.path().to_owned();
    // A program keeps its working directory even if it is moved and deleted.
    let dir = fs::File::open(data.join("a/b")).unwrap();
    let busy = Meanwhile::repeat(move || {
        let name = rand::random::<u16>().to_string();
        if rustix::fs::mkdirat(&dir, &name, rustix::fs::Mode::RWXU).is_ok() {
            let _ = rustix::fs::symlinkat(&target, &dir, format!("{name}l"));
            let _ = rustix::fs::renameat(&dir, "c", &dir, format!("{name}/c"));
            let _ = rustix::fs::renameat(&dir, format!("{name}/c"), &dir, "c");
        }
    });
    thread::sleep(std::time::Duration::from_millis(20));
    assert!(fixture.workspaces.remove(&fixture.key).await.unwrap());
    fixture.workspaces.wait_for_background_work().await;
    drop((busy, workspace));
    assert_eq!(
        fs::read_to_string(outside.path().join("r.txt")).unwrap(),
        SECRET
    );
    nothing_stays_after_a_start(fixture);
}

#[tokio::test(start_paused = true)]
async fn nothing_stays_of_what_a_dying_program_writes() {
    let fixture = Fixture::new();
    let _workspace = fixture.workspace().await;
    let dir = fs::File::open(fixture.data()).unwrap();
    let mode = rustix::fs::Mode::RWXU;
    let (mut wiped, mut made) = (0, 0);
    let _dying = Meanwhile::repeat(move || {
        // It goes on until it has seen its files go a few times. One that outruns the deletion never sees that.
        if wiped < 4 && made < 50_000 {
            let _ = rustix::fs::mkdirat(&dir, format!("{}", rand::random::<u32>()), mode);
            wiped += u32::from(rustix::fs::mkdirat(&dir, "marker", mode).is_ok());
            made += 1;
        }
    });
    assert!(fixture.workspaces.remove(&fixture.key).await.unwrap());
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(fixture.leftovers(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_made_anew_between_two_deletions_goes_whole() {
    let fixture = Fixture::new();
    let data = fixture.data();
    let _anew = Meanwhile::repeat(move || {
        let _ = fs::create_dir(&data);
        let _ = fs::write(data.join("file"), "");
    });
    for _ in 0..1_000 {
        let remove = |_| fixture.workspaces.remove(&fixture.key);
        let removed = futures::future::join_all((0..16).map(remove)).await;
        assert!(removed.iter().all(Result::is_ok), "{removed:?}");
    }
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(fixture.leftovers(), 0);
}

#[tokio::test]
async fn uploads_succeed_while_their_conversation_is_deleted() {
    let fixture = Fixture::new();
    for number in 0..500 {
        let workspace = fixture.workspace().await;
        let (workspaces, key) = (fixture.workspaces.clone(), fixture.key.clone());
        let removal = async {
            workspaces.remove(&key).await.unwrap();
            workspaces.wait_for_background_work().await;
        };
        let name = path(&format!("sub/{number}"));
        let upload = workspace.write_file(&name, Bytes::from("x"), Existing::Replace);
        let ((), uploaded) = tokio::join!(removal, upload);
        uploaded.unwrap();
        fixture.workspaces.create(&fixture.key).await.unwrap();
    }
    fixture.workspaces.wait_for_background_work().await;
    assert_eq!(fixture.leftovers(), 0);
}
