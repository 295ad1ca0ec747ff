//! Sends what is written on a thread of its own, as fast as it is read and not faster.

use std::io::{self, ErrorKind, Write};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;

use super::transfer::{PATIENCE, PIECE_BYTES};
use crate::body::time_for;

/// A body of what `write` writes, of which about `bytes` are to be expected. `held` is dropped when that is over.
///
/// Its length is not known before. If writing fails, the body ends with an error and the connection is closed, by which
/// the client sees that something is missing.
pub(in crate::http) fn written<H: Send + 'static>(
    tasks: &TaskTracker,
    bytes: u64,
    held: H,
    write: impl FnOnce(&mut Pieces) -> io::Result<()> + Send + 'static,
) -> Body {
    let (sender, receiver) = mpsc::channel(1);
    let end = Instant::now() + time_for(bytes);
    tasks.spawn_blocking(move || {
        let _held = held;
        let mut pieces = Pieces {
            sender,
            piece: BytesMut::with_capacity(PIECE_BYTES),
            end,
        };
        let done = write(&mut pieces).and_then(|()| pieces.flush());
        if let Err(error) = done {
            // Whoever has gone does not hear of it.
            let _ = pieces.send(Err(error));
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

/// Where the body is written to.
#[derive(Debug)]
pub(in crate::http) struct Pieces {
    sender: mpsc::Sender<io::Result<Bytes>>,
    piece: BytesMut,
    /// When the client was too slow.
    end: Instant,
}

impl Pieces {
    fn send(&self, piece: io::Result<Bytes>) -> io::Result<()> {
        let until = self.end.min(Instant::now() + PATIENCE);
        let sent = Handle::current().block_on(timeout_at(until, self.sender.send(piece)));
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PIECE_BYTES - self.piece.len();
        let taken = &bytes[..bytes.len().min(room)];
        self.piece.extend_from_slice(taken);
        if self.piece.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = self.piece.split().freeze();
        self.send(Ok(piece))
    }
}
