//! Waits for a run while its client watches: sends its position in the queue and new output as progress notifications,
//! and a sign of life when there is neither.

mod beats;
mod pieces;

use std::time::Duration;

use rmcp::model::{NotificationMetaObject, ProgressNotificationParam, ProgressToken};
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

pub(super) use self::beats::with_signs_of_life;
use self::pieces::Pieces;
use super::caller::Caller;
use crate::ledger::RunHandle;
use crate::run::outcome::RunResult;
use crate::run::render;
use crate::run::stage::Stage;

/// Notifications are at least this far apart.
const GAP: Duration = Duration::from_millis(100);
/// And at most this far: clients take longer silence for a dead server.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Bytes of output in one notification.
const MAX_TEXT: usize = 4 << 10;
/// A program that is further ahead of its client than this is not followed word by word.
const MAX_LAG: usize = 64 << 10;
/// Notifications that may wait in a stalled stream.
const MAX_WAITING: u32 = 8;
/// How long handing over one notification may take.
const HANDOVER: Duration = Duration::from_secs(1);
/// How long an answer may wait while its client is sent what was printed before it.
const CATCH_UP: Duration = Duration::from_secs(5);

/// Why waiting ended.
pub(super) enum Woken {
    /// The run is over.
    Ended(RunResult),
    /// The client does not want the answer any more.
    Cancelled,
    /// It took too long.
    Due,
}

/// Waits for the end of a run, but not beyond `due`, and sends the client what it prints until then.
pub(super) async fn wait(
    run: &RunHandle,
    context: &RequestContext<RoleServer>,
    caller: &Caller,
    from: usize,
    due: Option<Instant>,
) -> Woken {
    let mut relay = Relay::new(run, context, caller, from);
    let woken = async {
        let late = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            result = run.ended() => Woken::Ended(result),
            () = context.ct.cancelled() => Woken::Cancelled,
            () = late => Woken::Due,
        }
    };
    tokio::pin!(woken);
    let woken = loop {
        let progress = tokio::select! {
            biased;
            woken = &mut woken => break woken,
            progress = relay.next() => progress,
        };
        // Not inside the select: a notification that was begun must be sent before the answer is.
        let _ = timeout(HANDOVER, context.peer.notify_progress(progress)).await;
    };
    if matches!(woken, Woken::Ended(_)) {
        relay.catch_up(context).await;
    }
    woken
}

/// What a client has been sent, and what comes next.
struct Relay<'a> {
    run: &'a RunHandle,
    caller: &'a Caller,
    token: Option<ProgressToken>,
    /// For a client that wants more than text.
    pieces: Option<Pieces>,
    seen: watch::Receiver<u64>,
    stages: watch::Receiver<Stage>,
    /// The position that was sent last.
    position: Option<usize>,
    /// How much of the output was sent.
    offset: usize,
    behind: bool,
    progress: f64,
    started: Instant,
    /// When something was last sent to it.
    last: Instant,
    /// When there was last a check for something to send.
    looked: Instant,
    unread: Unread,
}

/// What a client had taken, and how many notifications were sent since that last changed.
#[derive(Default)]
struct Unread {
    taken: Option<u64>,
    waiting: u32,
}

impl Unread {
    /// Whether the client has stopped reading: more would stall its whole session.
    fn is_stalled(&mut self, caller: &Caller) -> bool {
        let taken = caller.delivery.taken();
        if taken.is_none() || taken != self.taken {
            (self.taken, self.waiting) = (taken, 0);
        }
        self.waiting >= MAX_WAITING && taken.is_some()
    }

    /// Counts one more notification.
    fn sent(&mut self) {
        self.waiting += 1;
    }
}

impl<'a> Relay<'a> {
    fn new(
        run: &'a RunHandle,
        context: &RequestContext<RoleServer>,
        caller: &'a Caller,
        offset: usize,
    ) -> Self {
        let token = context.meta.get_progress_token();
        let pieces = Pieces::wanted(&context.meta);
        let now = Instant::now();
        Self {
            run,
            caller,
            token: token.filter(|_| caller.may_stream),
            seen: run.progress.capture.watch(),
            stages: run.progress.stage.subscribe(),
            position: None,
            offset,
            pieces,
            // There may be output already.
            behind: true,
            progress: 0.0,
            started: now,
            last: now,
            looked: now,
            unread: Unread::default(),
        }
    }

    /// The next notification. Dropping the future loses nothing.
    async fn next(&mut self) -> ProgressNotificationParam {
        let Some(token) = self.token.clone() else {
            return std::future::pending().await;
        };
        loop {
            if !self.behind {
                tokio::select! {
                    _ = self.seen.changed() => {}
                    _ = self.stages.changed() => {}
                    () = sleep_until(self.last + HEARTBEAT) => {}
                }
            }
            sleep_until(self.looked + GAP).await;
            self.looked = Instant::now();
            if self.unread.is_stalled(self.caller) {
                continue;
            }
            let progress = match &mut self.pieces {
                Some(pieces) => {
                    let meta = pieces.next(self.run);
                    self.behind = pieces.behind;
                    meta.map(|meta| (None, Some(meta)))
                }
                None => self.text().map(|text| (Some(text), None)),
            };
            let progress = progress.or_else(|| self.queue_text().map(|text| (Some(text), None)));
            if progress.is_none() && self.last.elapsed() < HEARTBEAT {
                continue;
            }
            let (message, meta) = progress.unwrap_or_default();
            return self.progress(token, message, meta);
        }
    }

    /// Its position in the queue, if that has changed.
    fn queue_text(&mut self) -> Option<String> {
        let position = self.stages.borrow_and_update().position();
        let sent = std::mem::replace(&mut self.position, position);
        let position = position.filter(|_| position != sent)?;
        Some(format!(
            "[waiting for a place: number {position} in the queue]\n"
        ))
    }

    /// Sends a client that reads pieces the rest before its answer, so that it need not ask for it.
    async fn catch_up(&mut self, context: &RequestContext<RoleServer>) {
        let Some(token) = self.token.clone() else {
            return;
        };
        let until = Instant::now() + CATCH_UP;
        while Instant::now() < until {
            if self.unread.is_stalled(self.caller) {
                sleep(GAP).await;
                continue;
            }
            let rest = self
                .pieces
                .as_mut()
                .and_then(|pieces| pieces.rest(self.run));
            let Some(meta) = rest else {
                return;
            };
            let progress = self.progress(token.clone(), None, Some(meta));
            let notified = timeout(HANDOVER, context.peer.notify_progress(progress)).await;
            if notified.is_err() {
                return;
            }
        }
    }

    fn progress(
        &mut self,
        token: ProgressToken,
        message: Option<String>,
        meta: Option<NotificationMetaObject>,
    ) -> ProgressNotificationParam {
        self.last = Instant::now();
        self.unread.sent();
        // Seconds, which every client can show. The value must grow even if the clock has not moved.
        self.progress = self
            .started
            .elapsed()
            .as_secs_f64()
            .max(self.progress + 0.001);
        let mut progress = ProgressNotificationParam::new(token, self.progress);
        (progress.message, progress.meta) = (message, meta);
        progress
    }

    /// Output that was not sent yet, without an incomplete character at its end.
    fn text(&mut self) -> Option<String> {
        let kept = self
            .run
            .progress
            .capture
            .read(None, self.offset, MAX_LAG + 1);
        let skipped = kept.len() > MAX_LAG;
        let bytes = if skipped {
            // Skips to the latest, without the rest of a character at its beginning.
            let end = self.run.progress.capture.kept();
            let from = end.saturating_sub(MAX_TEXT / 2);
            let bytes = self.run.progress.capture.read(None, from, MAX_TEXT / 2);
            let rest = bytes
                .iter()
                .take_while(|byte| (0x80..0xc0).contains(*byte))
                .count();
            self.offset = from + rest;
            bytes[rest..].to_vec()
        } else {
            kept
        };
        let mut piece = &bytes[..bytes.len().min(MAX_TEXT)];
        piece = &piece[..render::whole(piece)];
        let mut text = render::clean(piece);
        if text.len() > MAX_TEXT - 64 {
            // Each byte that is not UTF-8 becomes three.
            piece = &piece[..piece.len().min(MAX_TEXT / 4)];
            piece = &piece[..render::whole(piece)];
            text = render::clean(piece);
        }
        self.offset += piece.len();
        self.behind = piece.len() < bytes.len() && !piece.is_empty();
        if skipped {
            text.insert_str(0, "[… output left out …]\n");
        }
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::caller::{Delivery, RetryAfter, ToolBegun};
    use crate::principal::Principal;
    use crate::scope::Rights;

    #[test]
    fn only_what_was_sent_can_be_unread() {
        let caller = Caller {
            principal: Principal::local(),
            rights: Rights::ALL,
            may_stream: true,
            names_revision: true,
            delivery: Delivery::counted(),
            retry_after: RetryAfter::default(),
            begun: ToolBegun::default(),
        };
        let (reading, mut unread) = (caller.delivery.reading(), Unread::default());
        for _ in 0..100 {
            assert!(!unread.is_stalled(&caller));
        }
        for _ in 0..MAX_WAITING {
            assert!(!unread.is_stalled(&caller));
            unread.sent();
        }
        assert!(unread.is_stalled(&caller));
        reading.more();
        assert!(!unread.is_stalled(&caller));
    }
}
