//! Networks that exist in memory only.

use std::collections::HashMap;

use super::{FakeExecutor, Inner, error};
use crate::executor::spec::LaneSpec;
use crate::executor::{ErrorKind, ExecutorError, LaneId, LaneInfo};

/// The lanes of a fake engine.
#[derive(Debug, Default)]
pub(super) struct FakeLanes {
    there: HashMap<LaneId, LaneSpec>,
    made: u64,
    /// Whether its engine keeps containers with a network apart without them.
    unneeded: bool,
}

impl FakeExecutor {
    /// The lanes that there are, and how many were ever made.
    pub fn lanes(&self) -> (Vec<LaneInfo>, u64) {
        let inner = self.0.inner.lock();
        (inner.lanes.there(), inner.lanes.made)
    }

    /// From now on, it keeps containers with a network apart by itself.
    pub fn go_without_lanes(&self) {
        self.0.inner.lock().lanes.unneeded = true;
    }

    /// Removes all lanes that no container is on, as `docker network prune` does.
    pub fn prune(&self) {
        let mut inner = self.0.inner.lock();
        for lane in inner.lanes.there() {
            if !inner.is_on(&lane.id) {
                let _ = inner.lanes.remove(&lane.id, false);
            }
        }
    }
}

impl Inner {
    /// Whether a container is on a lane.
    pub(super) fn is_on(&self, lane: &LaneId) -> bool {
        let mut containers = self.containers.values();
        containers.any(|container| container.spec.lane.as_ref() == Some(lane))
    }
}

impl FakeLanes {
    pub(super) const fn are_needed(&self) -> bool {
        !self.unneeded
    }

    pub(super) fn there(&self) -> Vec<LaneInfo> {
        let there = self.there.iter().map(|(id, lane)| LaneInfo {
            id: id.clone(),
            number: lane.number,
            labels: lane.labels.clone().into_iter().collect(),
        });
        there.collect()
    }

    pub(super) fn make(&mut self, lane: &LaneSpec) -> Result<LaneId, ExecutorError> {
        let is_taken =
            |other: &LaneSpec| other.number == lane.number || other.subnet == lane.subnet;
        if self.there.values().any(is_taken) {
            let operation = "make a network for a run";
            return Err(error(ErrorKind::Refused, operation, "it is there already"));
        }
        self.made += 1;
        let id = LaneId(format!("lane-{}", self.made));
        self.there.insert(id.clone(), lane.clone());
        Ok(id)
    }

    pub(super) fn has(&self, lane: &LaneId) -> bool {
        self.there.contains_key(lane)
    }

    pub(super) fn remove(&mut self, lane: &LaneId, is_used: bool) -> Result<(), ExecutorError> {
        if is_used {
            let operation = "remove a network of a run";
            return Err(error(ErrorKind::Refused, operation, "a container is on it"));
        }
        self.there.remove(lane);
        Ok(())
    }
}
