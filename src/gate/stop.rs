//! What ends somebody from outside.

use tokio_util::sync::CancellationToken;

use super::GateError;

/// What ends a visit from outside.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    /// The caller no longer wants it.
    pub(crate) cancel: CancellationToken,
    /// Its conversation is being deleted, or the server stops.
    pub(crate) end: CancellationToken,
}

impl Stop {
    pub(super) fn new(cancel: &CancellationToken, end: &CancellationToken) -> Self {
        Self {
            cancel: cancel.clone(),
            end: end.clone(),
        }
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.cancel.is_cancelled() || self.end.is_cancelled()
    }

    /// Resolves when either happens.
    pub(crate) async fn requested(&self) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.end.cancelled() => {}
        }
    }

    /// Takes a step, unless it is stopped first.
    pub(crate) async fn unless<T, E: From<GateError>>(
        &self,
        step: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        tokio::select! {
            done = step => done,
            () = self.requested() => Err(GateError::Cancelled.into()),
        }
    }
}
