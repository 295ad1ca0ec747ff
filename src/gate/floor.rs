//! Who has to go when the disk is nearly full (`DISK_FREE_FLOOR`), so that nobody pays for what another has taken.
//!
//! First the idle kernels that hold deleted files, the largest first, then the program under way that has taken most
//! since its start or since the last time that somebody had to go. After each of them the disk is looked at again. A
//! program that takes next to nothing is never stopped.

mod takers;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::takers::{Taken, Takers};
use crate::kernels::Kernels;
use crate::sandbox::Scale;
use crate::workspace::{Usage, WorkspaceError, Workspaces};

/// How often the disk is looked at while somebody goes, and how often a program measures its files meanwhile.
const LOOK: Duration = Duration::from_millis(25);
/// How long it may take until the space of those that go is free: a container has to be removed.
const GOING: Duration = Duration::from_secs(3);
/// Nobody waits any longer for that when as much has been taken in the meantime.
const SLACK: u64 = 32 << 20;
/// How long to wait until all have measured what they have taken, and how old a measurement may be.
const MEASURING: Duration = Duration::from_millis(250);
const FRESH: Duration = Duration::from_millis(100);
/// Pause between two looks at the disk when nobody says that it is nearly full.
const PAUSE: Duration = Duration::from_secs(1);
/// A loss of space that is too small to matter.
const LITTLE: u64 = 1 << 20;

/// Keeps the space that must stay free.
#[derive(Clone, Debug)]
pub struct Floor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    workspaces: Workspaces,
    kernels: Kernels,
    takers: Mutex<Takers>,
    /// A program has seen that the disk is nearly full.
    short: Notify,
    /// One decision at a time; and when it was found that nobody had to go, if it was.
    deciding: tokio::sync::Mutex<Option<Blameless>>,
}

/// That nobody had to go, and how much was free then.
#[derive(Clone, Copy, Debug)]
struct Blameless {
    at: Instant,
    free: u64,
}

/// A program that can take space. Dropping it notes its end.
#[derive(Debug)]
pub(crate) struct Taker {
    floor: Floor,
    number: u64,
    /// What its files took at its start.
    found: Usage,
    /// Cancelled when it has to go.
    gone: CancellationToken,
}

impl Floor {
    /// Nobody takes anything yet.
    pub fn new(workspaces: Workspaces, kernels: Kernels) -> Self {
        Self(Arc::new(Shared {
            workspaces,
            kernels,
            takers: Mutex::default(),
            short: Notify::new(),
            deciding: tokio::sync::Mutex::default(),
        }))
    }

    /// A program begins that finds files of this size. What it holds without a name is asked by `scale`.
    pub(crate) fn register(&self, found: Usage, scale: Scale) -> Taker {
        let gone = CancellationToken::new();
        let number = self.0.takers.lock().insert(gone.clone(), scale);
        Taker {
            floor: self.clone(),
            number,
            found,
            gone,
        }
    }

    /// Has room made whenever there is too little.
    pub async fn maintain(&self) {
        loop {
            // What nobody can be blamed for is told to those who ask.
            let _ = self.make_room().await;
            let _ = tokio::time::timeout(PAUSE, self.0.short.notified()).await;
        }
    }

    /// Makes sure that enough of the disk is free: ends those who have taken too much, one after the other.
    ///
    /// # Errors
    /// [`WorkspaceError::DiskFull`]: there is still too little, and nobody else to blame.
    pub async fn make_room(&self) -> Result<(), WorkspaceError> {
        if self.0.workspaces.check_space().is_ok() {
            return Ok(());
        }
        // Boxed, because it is large and few runs need it.
        Box::pin(self.decide()).await
    }

    async fn decide(&self) -> Result<(), WorkspaceError> {
        let workspaces = &self.0.workspaces;
        let mut blameless = self.0.deciding.lock().await;
        while workspaces.check_space().is_err() {
            let free = workspaces.free_bytes().unwrap_or(0);
            if self.0.kernels.end_largest_holder() {
                self.settle(free).await;
                continue;
            }
            let still = |known: Blameless| {
                known.at.elapsed() < PAUSE && free.saturating_add(LITTLE) > known.free
            };
            if blameless.is_some_and(still) {
                break;
            }
            *blameless = None;
            self.weigh_all().await;
            if !self.0.takers.lock().doom() {
                let at = Instant::now();
                *blameless = Some(Blameless { at, free });
                break;
            }
            info!("stopped the program that had taken most: the disk is nearly full");
            self.settle(free).await;
            // Its files may have names, and stay. Those who go on have taken nothing since.
            self.0.takers.lock().forgive();
        }
        workspaces.check_space().map(drop)
    }

    /// Waits until enough is free. `free` is what there was when somebody was told to go.
    async fn settle(&self, free: u64) {
        let workspaces = &self.0.workspaces;
        let until = Instant::now() + GOING;
        let is_going = || {
            let now = workspaces.free_bytes().unwrap_or(0);
            workspaces.check_space().is_err() && now.saturating_add(SLACK) > free
        };
        while is_going() && Instant::now() < until {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks everybody what they hold, and lets them measure their files meanwhile.
    async fn weigh_all(&self) {
        let begun = Instant::now();
        let scales = self.0.takers.lock().scales();
        let asked = scales
            .into_iter()
            .map(|(number, scale)| async move { (number, scale.weigh().await) });
        for (number, held) in join_all(asked).await {
            self.0.takers.lock().hold(number, held);
        }
        while !self.0.takers.lock().all_measured_since(begun - FRESH) && begun.elapsed() < MEASURING
        {
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Taker {
    /// Notes what its files take now.
    pub(crate) fn measured(&self, usage: &Usage) {
        let taken = Taken::since(&self.found, usage);
        self.floor
            .0
            .takers
            .lock()
            .measured(self.number, taken, Instant::now());
    }

    /// Says that the disk is nearly full.
    pub(crate) fn is_short(&self) {
        self.floor.0.short.notify_one();
    }

    /// Resolves when it has to go.
    pub(crate) async fn blamed(&self) {
        self.gone.cancelled().await;
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.floor.0.takers.lock().leave(self.number);
    }
}
