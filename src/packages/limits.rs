//! What ends an install before it is done.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::PackagesError;

/// How long an install may go on.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Its caller does not want it any more.
    pub(super) cancel: CancellationToken,
    /// Its conversation is deleted, or the server stops.
    pub(super) stop: CancellationToken,
    /// It may not take longer than this.
    pub(super) timeout: Duration,
    /// When that is over.
    pub(super) ends: Instant,
}

impl Limits {
    /// Resolves when it has to end, and says why.
    pub(super) async fn reached(&self) -> PackagesError {
        tokio::select! {
            () = self.cancel.cancelled() => PackagesError::Cancelled,
            () = self.stop.cancelled() => PackagesError::Cancelled,
            () = tokio::time::sleep_until(self.ends) => PackagesError::TimedOut(self.timeout),
        }
    }

    /// Fails if it should have ended by now.
    pub(super) fn check(&self) -> Result<(), PackagesError> {
        if self.cancel.is_cancelled() || self.stop.is_cancelled() {
            return Err(PackagesError::Cancelled);
        }
        if Instant::now() >= self.ends {
            return Err(PackagesError::TimedOut(self.timeout));
        }
        Ok(())
    }
}
