//! A run as others see it while it goes on.

use std::sync::Arc;

use tokio::sync::watch;

use crate::sandbox::Capture;

/// What can be seen of a run while it waits and runs.
#[derive(Debug)]
pub struct Live {
    /// What it has printed so far.
    pub capture: Arc<Capture>,
    /// Its position in the queue: 1 for the next, 0 when it is not waiting.
    pub position: watch::Sender<usize>,
}

impl Live {
    /// Nothing yet, with room for `room` bytes of each stream.
    pub fn new(room: usize) -> Self {
        Self {
            capture: Arc::new(Capture::new(room)),
            position: watch::Sender::new(0),
        }
    }

    pub(super) fn set_position(&self, position: usize) {
        self.position
            .send_if_modified(|told| std::mem::replace(told, position) != position);
    }
}
