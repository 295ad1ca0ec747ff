//! A connection that counts what is copied, and ends when that is more than a run may have.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::traffic::Meter;

/// The program's end of a connection: what is read from it is sent, what is written to it was received.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, meter: Arc<Meter>) -> Self {
        Self { stream, meter }
    }

    fn check(&self) -> io::Result<()> {
        if self.meter.is_spent() {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.meter.add_sent(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.meter.add_received(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
