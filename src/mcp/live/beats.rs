//! Signs of life for long work that is not a run, such as an install.

use rmcp::model::ProgressNotificationParam;
use rmcp::service::{RequestContext, RoleServer};
use tokio::time::{Instant, sleep, timeout};

use super::{HANDOVER, HEARTBEAT, Unread};
use crate::mcp::caller::Caller;

/// Waits for the end of some work, and shows a client that follows progress that it goes on: clients, and proxies on
/// the way, take silence for a dead server.
pub(in crate::mcp) async fn with_signs_of_life<T>(
    work: impl Future<Output = T>,
    context: &RequestContext<RoleServer>,
    caller: &Caller,
) -> T {
    let token = context.meta.get_progress_token();
    let Some(token) = token.filter(|_| caller.may_stream) else {
        return work.await;
    };
    let (started, mut unread) = (Instant::now(), Unread::default());
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep(HEARTBEAT) => {}
        }
        if unread.is_stalled(caller) {
            continue;
        }
        unread.sent();
        let seconds = started.elapsed().as_secs_f64();
        let progress = ProgressNotificationParam::new(token.clone(), seconds);
        // Not inside the select: a notification that was begun must be sent before the answer is.
        let _ = timeout(HANDOVER, context.peer.notify_progress(progress)).await;
    }
}
