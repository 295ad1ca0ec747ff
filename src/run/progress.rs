//! A run as others see it while it goes on.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::stage::Stage;
use crate::sandbox::Capture;

/// What can be seen of a run while it waits and runs.
#[derive(Debug)]
pub struct Progress {
    /// What it has printed so far.
    pub capture: Arc<Capture>,
    /// Where it is in its life.
    pub stage: watch::Sender<Stage>,
}

impl Progress {
    /// Nothing yet, with room for `room` bytes of each stream.
    pub fn new(room: usize) -> Self {
        Self {
            capture: Arc::new(Capture::new(room)),
            stage: watch::Sender::new(Stage::Entering),
        }
    }

    pub(super) fn set_entering(&self) {
        self.stage.send_replace(Stage::Entering);
    }

    pub(super) fn wait_for_kernel(&self) {
        self.stage.send_replace(Stage::WaitingForKernel);
    }

    /// Wakes those who watch only if the position is another one.
    pub(super) fn wait_at(&self, position: usize) {
        self.stage.send_if_modified(|stage| {
            let is_new = stage.position() != Some(position);
            *stage = Stage::Waiting { position };
            is_new
        });
    }

    pub(super) fn set_starting(&self) {
        self.stage.send_replace(Stage::Starting);
    }

    pub(super) fn set_running(&self, since: Instant) {
        self.stage.send_replace(Stage::Running { since });
    }
}
