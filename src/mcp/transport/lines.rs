//! One message per line: the transport of a client that has started its own server.
//!
//! rmcp has one too. It does not answer a line that it cannot take, so that the sender waits forever. When its input
//! has ended, it waits forever itself for an answer that nobody reads. Here such a line is refused as over HTTP, and at
//! the end nothing is waited for.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ProtocolVersion, ServerJsonRpcMessage};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::envelope::EnvelopeError;
use super::message::{self, Incoming, Message};
use super::revision::{has_batches, negotiated};

/// Refusals that may wait to be read. A client that does not read them gets no more.
const MAX_REFUSALS: usize = 64;

/// Messages that come and go as lines.
pub(crate) struct Lines<R, W> {
    input: BufReader<R>,
    /// What has arrived of the next line, since waiting for the rest may be cancelled.
    line: Vec<u8>,
    max_line: usize,
    /// Whether the rest of a line that is too long is still to come.
    skipping: bool,
    /// Messages that came with others and have not been taken yet.
    waiting: VecDeque<ClientJsonRpcMessage>,
    /// Whether several messages may come in one line, each of which is answered by a line of its own.
    has_batches: bool,
    output: Arc<Mutex<W>>,
    refusals: TaskTracker,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Reads lines of at most `max_line` bytes.
    pub(crate) fn new(input: R, output: W, max_line: usize) -> Self {
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
            max_line,
            skipping: false,
            waiting: VecDeque::new(),
            has_batches: has_batches(None),
            output: Arc::new(Mutex::new(output)),
            refusals: TaskTracker::new(),
        }
    }

    /// The next line, or an error if it is too long; `None` at the end. Dropping the future loses nothing.
    async fn next(&mut self) -> io::Result<Option<Result<Vec<u8>, EnvelopeError>>> {
        loop {
            let room = self.max_line.saturating_add(1) - self.line.len();
            let mut input = (&mut self.input).take(room as u64);
            input.read_until(b'\n', &mut self.line).await?;
            let whole = self.line.ends_with(b"\n");
            if !whole && self.line.len() <= self.max_line {
                return Ok(None);
            }
            let line = std::mem::take(&mut self.line);
            if !std::mem::replace(&mut self.skipping, !whole) {
                let too_long = EnvelopeError::TooLarge(self.max_line);
                return Ok(Some(whole.then_some(line).ok_or(too_long)));
            }
        }
    }

    /// Puts messages where they wait, and refuses those that cannot be taken.
    fn take(&mut self, messages: Vec<Result<Option<ClientJsonRpcMessage>, EnvelopeError>>) {
        for message in messages {
            match message {
                Ok(message) => self.waiting.extend(message),
                Err(error) => self.refuse(error),
            }
        }
        if let Some(asked) = self.waiting.iter().find_map(asked_revision) {
            self.has_batches = has_batches(Some(negotiated(asked).as_str()));
        }
    }

    /// Answers on a separate task: a client that reads nothing must still be noticed when it goes away.
    fn refuse(&self, error: EnvelopeError) {
        if self.refusals.len() < MAX_REFUSALS {
            let answer = error.into_answer();
            self.refusals.spawn(write(Arc::clone(&self.output), answer));
        }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        write(Arc::clone(&self.output), item)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            let line = match self.next().await {
                Ok(line) => line?,
                Err(error) => {
                    warn!(%error, "the input cannot be read");
                    return None;
                }
            };
            match line {
                Ok(line) => self.take(messages(line, self.has_batches)),
                Err(error) => self.refuse(error),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // Each message was flushed when it was sent. If one is still stuck, nobody reads it.
        Ok(())
    }
}

/// The messages in a line, or why one cannot be taken; `None` for one that expects no answer.
fn messages(
    line: Vec<u8>,
    has_batches: bool,
) -> Vec<Result<Option<ClientJsonRpcMessage>, EnvelopeError>> {
    if line.trim_ascii().is_empty() {
        return Vec::new();
    }
    let take = |message: Result<Message, EnvelopeError>| {
        let message = message?;
        match message.parse() {
            Ok(parsed) => Ok(Some(parsed)),
            Err(error) if message.id().is_some() => Err(error),
            Err(_) => Ok(None),
        }
    };
    match message::read(line.into(), has_batches) {
        Ok(Incoming::One(message)) => vec![take(Ok(message))],
        Ok(Incoming::Batch(messages)) => messages.into_iter().map(take).collect(),
        Err(error) => vec![Err(error)],
    }
}

/// The revision that a client asks for, if it does.
fn asked_revision(message: &ClientJsonRpcMessage) -> Option<&ProtocolVersion> {
    let ClientJsonRpcMessage::Request(request) = message else {
        return None;
    };
    match &request.request {
        ClientRequest::InitializeRequest(initialize) => Some(&initialize.params.protocol_version),
        _ => None,
    }
}

async fn write<W: AsyncWrite + Unpin>(
    output: Arc<Mutex<W>>,
    message: impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(&message)?;
    line.push(b'\n');
    let mut output = output.lock().await;
    output.write_all(&line).await?;
    output.flush().await
}
