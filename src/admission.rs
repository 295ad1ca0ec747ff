//! How many runs there are at once, who waits, and who is turned away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::AdmissionConfig;

/// The gate that every run passes.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    config: AdmissionConfig,
}

/// The right to run. Dropping it lets the next one in.
#[derive(Debug)]
pub struct Permit {
    _place: OwnedSemaphorePermit,
}

/// Why a run was turned away.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AdmissionError {
    /// All places are taken and the queue is full, or the wait for a place was too long.
    #[error("the server is busy: {running} runs and {waiting} waiting; try again in {} s", retry_after.as_secs())]
    Busy {
        /// Runs at the moment.
        running: usize,
        /// Runs that wait.
        waiting: usize,
        /// When to come back.
        retry_after: Duration,
    },
    /// The server is stopping.
    #[error("the server is stopping and takes no new runs; try again in a minute")]
    Closed,
}

impl Admission {
    /// A gate with the given number of places.
    pub fn new(config: AdmissionConfig) -> Self {
        let places = Arc::new(Semaphore::new(config.concurrent));
        Self(Arc::new(Shared {
            places,
            waiting: AtomicUsize::new(0),
            config,
        }))
    }

    /// Waits for a place, first come first served.
    ///
    /// # Errors
    /// [`AdmissionError::Busy`] at once when the queue is full, or after the longest wait;
    /// [`AdmissionError::Closed`] when the server is stopping.
    pub async fn enter(&self) -> Result<Permit, AdmissionError> {
        if let Ok(place) = Arc::clone(&self.0.places).try_acquire_owned() {
            return Ok(Permit { _place: place });
        }
        if self.0.places.is_closed() {
            return Err(AdmissionError::Closed);
        }
        let _waiting = Waiting::join(&self.0).ok_or_else(|| self.busy())?;
        let place = Arc::clone(&self.0.places).acquire_owned();
        match tokio::time::timeout(self.0.config.wait, place).await {
            Ok(Ok(place)) => Ok(Permit { _place: place }),
            Ok(Err(_closed)) => Err(AdmissionError::Closed),
            Err(_elapsed) => Err(self.busy()),
        }
    }

    /// Lets nobody in any more; those who wait are told.
    pub fn close(&self) {
        self.0.places.close();
    }

    /// How many runs wait for a place.
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// How many runs have a place.
    pub fn running(&self) -> usize {
        let free = self.0.places.available_permits();
        self.0.config.concurrent - free.min(self.0.config.concurrent)
    }

    /// How many runs there may be.
    pub fn config(&self) -> &AdmissionConfig {
        &self.0.config
    }

    fn busy(&self) -> AdmissionError {
        AdmissionError::Busy {
            running: self.running(),
            waiting: self.waiting(),
            retry_after: Duration::from_secs(2),
        }
    }
}

/// A place in the queue.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn join(shared: &'a Shared) -> Option<Self> {
        let join = |waiting| (waiting < shared.config.queued).then_some(waiting + 1);
        shared
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, join)
            .ok()?;
        Some(Self(&shared.waiting))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(concurrent: usize, queued: usize) -> Admission {
        Admission::new(AdmissionConfig {
            concurrent,
            queued,
            wait: Duration::from_secs(30),
        })
    }

    #[tokio::test]
    async fn a_full_queue_turns_away_at_once() {
        let gate = gate(1, 0);
        let permit = gate.enter().await.unwrap();
        insta::assert_snapshot!(gate.enter().await.unwrap_err(), @"the server is busy: 1 runs and 0 waiting; try again in 2 s");
        drop(permit);
        gate.enter().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_after_its_limit() {
        let gate = gate(1, 1);
        let _permit = gate.enter().await.unwrap();
        assert!(matches!(
            gate.enter().await,
            Err(AdmissionError::Busy { .. })
        ));
        assert_eq!(gate.0.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn closing_tells_those_who_wait() {
        let gate = gate(1, 1);
        let _permit = gate.enter().await.unwrap();
        let (waited, ()) = tokio::join!(gate.enter(), async { gate.close() });
        assert_eq!(waited.unwrap_err(), AdmissionError::Closed);
        assert_eq!(gate.enter().await.unwrap_err(), AdmissionError::Closed);
    }
}
