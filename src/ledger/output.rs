//! The output of a run, piece by piece from its beginning, and then its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::consume_budget;
use tokio::time::{Instant, sleep_until};

use super::RunHandle;
use crate::executor::Stream;
use crate::run::outcome::RunResult;

/// Most changes between the streams in what is read together.
const MAX_PIECES: usize = 256;

/// Follows the output of one run.
#[derive(Debug)]
pub struct OutputFeed {
    run: Arc<RunHandle>,
    seen: watch::Receiver<u64>,
    /// How much was read, of both streams together.
    offset: usize,
    max_bytes: usize,
    gap: Duration,
    read: Instant,
}

/// What comes next.
#[derive(Debug)]
pub enum Fed {
    /// This was printed: pieces from one stream each, in their order.
    Printed(Vec<(Stream, Vec<u8>)>),
    /// The run has ended, and all that it printed was told.
    Ended(RunResult),
}

impl OutputFeed {
    /// From the beginning of a run on: up to so many bytes at a time, and when nothing was there, no sooner than `gap`
    /// after the last look.
    pub fn of(run: Arc<RunHandle>, max_bytes: usize, gap: Duration) -> Self {
        Self {
            seen: run.progress.capture.watch(),
            run,
            offset: 0,
            max_bytes,
            gap,
            read: Instant::now(),
        }
    }

    /// The next pieces, or the end, again and again. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Fed {
        loop {
            // Whoever has much to read lets others have their turn.
            consume_budget().await;
            // Asked for first: what was printed before the end is there when the end is.
            let ended = self.run.result();
            self.read = Instant::now();
            let capture = &self.run.progress.capture;
            let pieces = capture.read_apart(self.offset, self.max_bytes, MAX_PIECES);
            if !pieces.is_empty() {
                self.offset += pieces.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
                return Fed::Printed(pieces);
            }
            if let Some(result) = ended {
                return Fed::Ended(result);
            }
            let printed = async {
                let _ = self.seen.changed().await;
                sleep_until(self.read + self.gap).await;
            };
            tokio::select! {
                _ = self.run.ended() => {}
                () = printed => {}
            }
        }
    }
}
