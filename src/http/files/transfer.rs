//! Sends a part of an open file.
//!
//! A separate task reads ahead by one piece, so that a client that has stopped reading, or reads too slowly, loses its
//! place and its file after a while. The body of a response alone would never notice, since nobody polls it while the
//! client sleeps.

use std::fs::File;
use std::io::{Error, ErrorKind, Result, SeekFrom};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;

use crate::body::time_for;
use crate::workspace::DownloadSlot;

/// Bytes that are read at a time.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// How long a client may take to ask for the next piece.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// The body with `length` bytes from `first` on.
///
/// A program may shorten the file during the download. By then the length has been announced, so all that is left is to
/// break off: the body ends with an error, the connection is closed, and the client sees that something is missing.
pub(super) fn body(
    tasks: &TaskTracker,
    file: File,
    first: u64,
    length: u64,
    slot: DownloadSlot,
) -> Body {
    let (pieces, receiver) = mpsc::channel(1);
    tasks.spawn(async move {
        // Held until the last byte is on its way.
        let _slot = slot;
        // A client that is too slow gets a short body.
        let sent = timeout(time_for(length), send(file, first, length, &pieces)).await;
        if let Ok(Err(error)) = sent {
            let _ = timeout(PATIENCE, pieces.send(Err(error))).await;
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

async fn send(
    file: File,
    first: u64,
    length: u64,
    pieces: &mpsc::Sender<Result<Bytes>>,
) -> Result<()> {
    let mut file = tokio::fs::File::from_std(file);
    file.seek(SeekFrom::Start(first)).await?;
    let mut file = file.take(length);
    while file.limit() > 0 {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        if file.read_buf(&mut piece).await? == 0 {
            return Err(Error::new(
                ErrorKind::UnexpectedEof,
                "the file became shorter during its download",
            ));
        }
        match timeout(PATIENCE, pieces.send(Ok(piece.freeze()))).await {
            Ok(Ok(())) => {}
            // The client went away, or sleeps and gets a short body when it wakes up.
            Ok(Err(_)) | Err(_) => return Ok(()),
        }
    }
    Ok(())
}
