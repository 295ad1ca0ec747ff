//! Reads bodies whole, within limits of size and time.
//!
//! Large bodies share a bounded [`Room`] in memory: each is there several times over while it is parsed.

use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::BytesMut;
use futures::{Stream, StreamExt as _};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

/// How long a client may take to send or to take anything, however little it is.
const PATIENCE: Duration = Duration::from_mins(1);
/// The slowest pace of a client, in bytes a second.
const SLOWEST: u64 = 16 << 10;

/// The unit of room, since a semaphore cannot be asked for more than 2^32 at once.
const UNIT: usize = 1 << 10;
/// Bodies up to this size need no room: connections are bounded too.
const SMALL: usize = 256 << 10;
/// How many of the largest bodies have room at the same time.
const LARGEST_AT_A_TIME: usize = 4;
/// How long a body waits for room. Its sender waits too, since nothing is read during that time.
const PATIENCE_ROOM: Duration = Duration::from_secs(30);
/// How long a body that has room may send nothing. Shorter than others wait for it, so that bodies which have stopped
/// coming keep nobody out.
const PATIENCE_SILENT: Duration = Duration::from_secs(20);
/// Reported when there is no room.
pub(crate) const LARGE_BODIES: &str = "too many large requests at the same time";
/// When it is worth trying again.
pub(crate) const ROOM_AGAIN: Duration = Duration::from_secs(5);

/// Why there is no whole body.
pub(crate) enum BodyError {
    TooLarge,
    /// It was behind the slowest pace, or not whole in time.
    TooSlow,
    /// A large one sent nothing for this long.
    Silent(Duration),
    Interrupted,
    /// Other large bodies have all the room.
    NoRoom,
}

/// The room that all large bodies share.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// In [`UNIT`]s.
    free: Arc<Semaphore>,
    all: usize,
}

/// One body's part of it, kept for as long as anything of the body is in memory.
pub(crate) type BodyPermit = Arc<OwnedSemaphorePermit>;

/// A body that was read.
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    /// `None` for a small one.
    pub(crate) permit: Option<BodyPermit>,
}

impl Room {
    /// For bodies of about `largest` bytes at most.
    pub(crate) fn new(largest: usize) -> Self {
        let all = largest.div_ceil(UNIT).saturating_mul(LARGEST_AT_A_TIME);
        let all = all.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        Self {
            free: Arc::new(Semaphore::new(all)),
            all,
        }
    }

    async fn reserve(&self, bytes: usize) -> Result<BodyPermit, BodyError> {
        let units = u32::try_from(bytes.div_ceil(UNIT).min(self.all)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.free).acquire_many_owned(units);
        match timeout(PATIENCE_ROOM, permit).await {
            Ok(permit) => permit.map(Arc::new).map_err(|_| BodyError::NoRoom),
            Err(_) => Err(BodyError::NoRoom),
        }
    }

    /// Reads a whole body. One that is declared too large is not waited for.
    pub(crate) async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        limit: usize,
        patience: Duration,
    ) -> Result<Whole, BodyError> {
        let length = declared(headers).map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        if length.is_some_and(|length| length > limit) {
            return Err(BodyError::TooLarge);
        }
        let whole = self.collect(Limited::new(body, limit), length.unwrap_or(limit));
        timeout(patience, whole)
            .await
            .map_err(|_| BodyError::TooSlow)?
    }

    /// Reads a body of at most `max_bytes` bytes.
    async fn collect(&self, body: Limited<Body>, max_bytes: usize) -> Result<Whole, BodyError> {
        let (mut body, begun) = (body.into_data_stream(), Instant::now());
        let (mut bytes, mut permit) = (BytesMut::new(), None);
        loop {
            let due = begun + time_for(bytes.len() as u64);
            let piece = timeout_at(due, next(&mut body, permit.is_some())).await;
            let Some(piece) = piece.map_err(|_| BodyError::TooSlow)?? else {
                break;
            };
            if permit.is_none() && bytes.len() + piece.len() > SMALL {
                permit = Some(self.reserve(max_bytes).await?);
                bytes.reserve(max_bytes.saturating_sub(bytes.len()));
            }
            bytes.extend_from_slice(&piece);
        }
        let bytes = bytes.freeze();
        Ok(Whole { bytes, permit })
    }
}

/// How long a client may take to send or to take this many bytes.
pub(crate) fn time_for(bytes: u64) -> Duration {
    PATIENCE + Duration::from_secs(bytes / SLOWEST)
}

/// The next piece of a body, waited for as long as it takes if nobody else waits for room meanwhile.
async fn next(
    body: &mut (impl Stream<Item = Result<Bytes, BoxError>> + Unpin),
    has_room: bool,
) -> Result<Option<Bytes>, BodyError> {
    let piece = body.next();
    let piece = if has_room {
        let silent = |_| BodyError::Silent(PATIENCE_SILENT);
        timeout(PATIENCE_SILENT, piece).await.map_err(silent)?
    } else {
        piece.await
    };
    piece.transpose().map_err(|error| {
        if error.is::<LengthLimitError>() {
            BodyError::TooLarge
        } else {
            BodyError::Interrupted
        }
    })
}

/// How many bytes a body is declared to have.
pub(crate) fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
