//! Networks for programs that may use one: a *lane* for each container.
//!
//! On a network that containers share, each learns its neighbours' ids and addresses from the engine's own resolver.
//! So a lane has room for one container. It is made when it is needed, leased until its container is removed, and then
//! lent to the next.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt as _;
use ipnet::Ipv4Net;
use parking_lot::Mutex;
use tracing::debug;

use crate::executor::spec::{LaneSpec, lane_subnet};
use crate::executor::{ErrorKind, Executor, ExecutorError, LaneId, LaneInfo};

/// How many numbers are tried that were free when the engine was asked: another server may be faster, or another
/// network of the engine have the addresses.
const TRIES: usize = 16;
/// Lanes that are removed at a time.
const HANDS: usize = 8;

/// The lanes of this server.
#[derive(Clone, Debug)]
pub(super) struct Lanes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    executor: Arc<dyn Executor>,
    range: Ipv4Net,
    labels: BTreeMap<String, String>,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    /// Those that no container is on.
    free: BTreeMap<u32, LaneId>,
    /// Those that are leased, from before the engine is asked to make them. `None` until they are made, and when they
    /// must not be lent again.
    leased: HashMap<u32, Option<LaneId>>,
}

impl Books {
    fn knows(&self, number: u32) -> bool {
        self.leased.contains_key(&number) || self.free.contains_key(&number)
    }
}

impl Lanes {
    /// Lanes with addresses out of `range`, which carry `labels`.
    pub(super) fn new(
        executor: Arc<dyn Executor>,
        range: Ipv4Net,
        labels: BTreeMap<String, String>,
    ) -> Self {
        Self(Arc::new(Shared {
            executor,
            range,
            labels,
            books: Mutex::default(),
        }))
    }

    /// A lane that no container is on.
    ///
    /// # Errors
    /// What the engine said, or that there are no addresses left.
    pub(super) async fn lease(&self) -> Result<HeldLane, ExecutorError> {
        match self.lease_free() {
            Some(lane) => Ok(lane),
            None => self.make().await,
        }
    }

    fn lease_free(&self) -> Option<HeldLane> {
        let mut books = self.0.books.lock();
        let (number, id) = books.free.pop_first()?;
        books.leased.insert(number, Some(id));
        drop(books);
        Some(HeldLane {
            lanes: self.clone(),
            number,
        })
    }

    async fn make(&self) -> Result<HeldLane, ExecutorError> {
        let there = self.0.executor.lanes().await?;
        let mut taken: HashSet<_> = there.into_iter().map(|lane| lane.number).collect();
        let mut refusal = None;
        for _ in 0..TRIES {
            let Some((lane, subnet)) = self.reserve(&taken) else {
                break;
            };
            let spec = LaneSpec {
                number: lane.number,
                subnet,
                labels: self.0.labels.clone(),
            };
            match self.0.executor.make_lane(&spec).await {
                Ok(id) => {
                    self.0.books.lock().leased.insert(lane.number, Some(id));
                    return Ok(lane);
                }
                Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::Refused) => {
                    taken.insert(lane.number);
                    refusal = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(refusal.unwrap_or_else(|| self.exhausted()))
    }

    /// The lowest number that is neither taken nor ours, with its addresses.
    fn reserve(&self, taken: &HashSet<u32>) -> Option<(HeldLane, Ipv4Net)> {
        let mut books = self.0.books.lock();
        let number =
            (0..=u32::MAX).find(|number| !taken.contains(number) && !books.knows(*number))?;
        let subnet = lane_subnet(self.0.range, number)?;
        books.leased.insert(number, None);
        drop(books);
        let lane = HeldLane {
            lanes: self.clone(),
            number,
        };
        Some((lane, subnet))
    }

    fn exhausted(&self) -> ExecutorError {
        let range = self.0.range;
        let source = format!(
            "all networks that RUN_SUBNETS={range} has room for are in use: its operator can set a larger range"
        );
        ExecutorError {
            kind: ErrorKind::Refused,
            operation: "make a network for a run",
            source: source.into(),
        }
    }

    /// Lends none of the lanes again that are free now: somebody removed one of them, and perhaps all.
    pub(super) fn forget_free(&self) {
        self.0.books.lock().free.clear();
    }

    /// Does not lend a lane again: the engine may have something on it, or have it no more. It is removed when nothing
    /// is on it.
    pub(super) fn give_up(&self, number: u32) {
        let mut books = self.0.books.lock();
        books.free.remove(&number);
        if let Some(id) = books.leased.get_mut(&number) {
            *id = None;
        }
    }

    /// Removes the lanes for whose labels `is_orphan` says so, and those of ours that were forgotten.
    ///
    /// # Errors
    /// The engine does not answer, or cannot list them.
    pub(super) async fn reap(
        &self,
        is_orphan: impl Fn(&LaneInfo) -> bool,
    ) -> Result<(), ExecutorError> {
        let lanes = self.0.executor.lanes().await?.into_iter();
        let left = lanes.filter(|lane| is_orphan(lane) || self.has_forgotten(lane));
        let remove = async |lane: LaneInfo| match self.0.executor.remove_lane(&lane.id).await {
            Ok(()) => debug!(lane = lane.number, "removed a network"),
            // As long as a container is on it.
            Err(error) => debug!(%error, lane = lane.number, "left a network for later"),
        };
        futures::stream::iter(left)
            .for_each_concurrent(HANDS, remove)
            .await;
        Ok(())
    }

    /// Whether it is one of ours that is not lent again.
    fn has_forgotten(&self, lane: &LaneInfo) -> bool {
        let mut labels = self.0.labels.iter();
        labels.all(|(name, value)| lane.labels.get(name) == Some(value))
            && !self.0.books.lock().knows(lane.number)
    }

    /// Removes all that no container is on. What the engine does not remove now, a later server does.
    pub(super) async fn close(&self) {
        self.forget_free();
        if let Err(error) = self.reap(|_| false).await {
            debug!(%error, "left networks to the next start");
        }
    }
}

/// Exclusive use of a lane. Dropping it makes the lane free for the next.
#[derive(Debug)]
pub(super) struct HeldLane {
    lanes: Lanes,
    number: u32,
}

impl HeldLane {
    /// Its number, which stays its own as long as the lease.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// As [`Lanes::give_up`].
    pub(super) fn give_up(&self) {
        self.lanes.give_up(self.number);
    }

    /// What the engine knows it by.
    pub(super) fn id(&self) -> Option<LaneId> {
        self.lanes.0.books.lock().leased.get(&self.number)?.clone()
    }
}

impl Drop for HeldLane {
    fn drop(&mut self) {
        let mut books = self.lanes.0.books.lock();
        if let Some(Some(id)) = books.leased.remove(&self.number) {
            books.free.insert(self.number, id);
        }
    }
}
