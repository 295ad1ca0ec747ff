//! The standard streams of a pod: one WebSocket, whose messages are a channel's number and bytes of that channel.
//!
//! kube has this too, but splits the channels into pipes: the order of the two outputs is lost, and whoever reads one
//! waits for ever when the connection breaks. Here a break is an error, and a connection that has died without a word is
//! noticed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, Stream, StreamExt as _};
use hyper::Request;
use kube::Client;
use kube::core::Status;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::trace;

use super::error::ClusterError;
use super::pod::CONTAINER;
use crate::executor::{Attached, Chunk, ContainerId, ExecutorError, Stream as Output};

/// How long the cluster may take to connect, or to say that it cannot.
const CONNECT: Duration = Duration::from_secs(5);
/// How often a sign of life is sent: proxies and nodes close connections on which nothing is.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long nothing may come, not even answers to those.
const SILENCE: Duration = Duration::from_mins(1);
/// Messages of output that wait to be read. What does not fit waits in the cluster.
const WAITING: usize = 64;
/// Bytes of input in one message.
const PIECE: usize = 32 << 10;

/// The channels of a connection.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;

const READ: &str = "read a container's output";

/// Which pods have open streams. A stream ends only when the container does, or the way to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    open: Arc<Mutex<HashMap<ContainerId, CancellationToken>>>,
    tasks: TaskTracker,
}

impl Streams {
    /// Connects to the streams of a pod, if its container runs.
    ///
    /// # Errors
    /// It does not run, or the cluster does not answer.
    pub(super) async fn attach(
        &self,
        client: &Client,
        namespace: &str,
        pod: &ContainerId,
    ) -> Result<Attached, ClusterError> {
        let name = &pod.0;
        let uri = format!(
            "/api/v1/namespaces/{namespace}/pods/{name}/attach?container={CONTAINER}&stdin=true&stdout=true&stderr=true"
        );
        let request = Request::get(uri).body(Vec::new());
        let request = request.map_err(|error| ClusterError::Lost(error.to_string()))?;
        let socket = ClusterError::within(CONNECT, client.connect(request)).await?;
        let (to, from) = socket.into_stream().split();
        let (input, written) = tokio::io::duplex(PIECE);
        let (chunks, output) = mpsc::channel(WAITING);
        let open = self.open(pod);
        let carry = async move {
            let _open = open;
            let lost = tokio::select! {
                lost = read(from, &chunks) => lost,
                lost = write(to, written) => lost,
            };
            if let Some(lost) = lost {
                // Nobody may be reading any more.
                let _ = chunks.send(Err(lost)).await;
            }
        };
        let carry = AbortOnDropHandle::new(self.tasks.spawn(carry));
        let output = ReceiverStream::new(output).map(move |chunk| {
            // The connection lives as long as somebody reads.
            let _ = &carry;
            chunk
        });
        Ok(Attached {
            input: Box::new(input),
            output: output.boxed(),
        })
    }

    fn open(&self, pod: &ContainerId) -> Open {
        let ended = CancellationToken::new();
        self.open.lock().insert(pod.clone(), ended.clone());
        Open {
            streams: self.clone(),
            pod: pod.clone(),
            ended,
        }
    }

    /// Resolves when a pod's streams have ended; at once if it has none.
    pub(super) fn ended(&self, pod: &ContainerId) -> impl Future<Output = ()> + Send + use<> {
        let open = self.open.lock().get(pod).cloned();
        async move {
            if let Some(open) = open {
                open.cancelled().await;
            }
        }
    }

    /// Whether a pod has streams that have not ended.
    pub(super) fn are_open(&self, pod: &ContainerId) -> bool {
        self.open.lock().contains_key(pod)
    }
}

/// An open connection. Dropping it tells those who wait for its end.
struct Open {
    streams: Streams,
    pod: ContainerId,
    ended: CancellationToken,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.streams.open.lock().remove(&self.pod);
        self.ended.cancel();
    }
}

/// What a message is.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Chunk(Chunk),
    /// The container has ended, or the cluster has another reason for the end.
    End(Result<(), String>),
    /// A sign of life.
    Nothing,
}

impl Heard {
    fn of(message: &Message) -> Self {
        let Message::Binary(bytes) = message else {
            let is_end = matches!(message, Message::Close(_));
            return if is_end {
                Self::End(Ok(()))
            } else {
                Self::Nothing
            };
        };
        let chunk = |stream| {
            Self::Chunk(Chunk {
                stream,
                bytes: bytes.slice(1..),
            })
        };
        match bytes.first() {
            // Channels are opened with a message that has nothing in it.
            _ if bytes.len() < 2 => Self::Nothing,
            Some(&STDOUT) => chunk(Output::Stdout),
            Some(&STDERR) => chunk(Output::Stderr),
            Some(&STATUS) => Self::End(status(&bytes[1..])),
            _ => Self::Nothing,
        }
    }
}

/// What the cluster says about the end of the streams.
fn status(bytes: &[u8]) -> Result<(), String> {
    match serde_json::from_slice::<Status>(bytes) {
        Ok(status) if status.is_failure() => Err(status.message),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Reads until the end. `None` is that of the container.
async fn read(
    mut from: impl Stream<Item = Result<Message, SocketError>> + Unpin,
    chunks: &mpsc::Sender<Result<Chunk, ExecutorError>>,
) -> Option<ExecutorError> {
    loop {
        let heard = match timeout(SILENCE, from.next()).await {
            Err(_) => return Some(ClusterError::Slow(SILENCE).during(READ)),
            Ok(None) => return None,
            Ok(Some(Err(error))) => {
                return Some(ClusterError::Lost(error.to_string()).during(READ));
            }
            Ok(Some(Ok(message))) => Heard::of(&message),
        };
        match heard {
            Heard::Nothing => {}
            Heard::End(Ok(())) => return None,
            Heard::End(Err(reason)) => {
                trace!(reason, "a container's streams ended");
                return None;
            }
            // Nobody reads any more.
            Heard::Chunk(chunk) => {
                if chunks.send(Ok(chunk)).await.is_err() {
                    return None;
                }
            }
        }
    }
}

/// Passes on what is written, and sends signs of life, until the connection breaks. Who writes does not read the answer,
/// so the end of what is written is none of the connection.
async fn write(
    mut to: impl futures::Sink<Message, Error = SocketError> + Unpin,
    mut written: DuplexStream,
) -> Option<ExecutorError> {
    let mut buffer = vec![STDIN; PIECE + 1];
    let mut pings = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    let mut is_open = true;
    loop {
        let sent = tokio::select! {
            count = written.read(&mut buffer[1..]), if is_open => match count {
                Ok(count) if count > 0 => to.send(message(&buffer[..=count])).await,
                Ok(_) | Err(_) => {
                    is_open = false;
                    Ok(())
                }
            },
            _ = pings.tick() => alive(&mut to).await,
        };
        if let Err(error) = sent {
            let operation = "write a container's input";
            return Some(ClusterError::Lost(error.to_string()).during(operation));
        }
    }
}

fn message(bytes: &[u8]) -> Message {
    Message::Binary(Bytes::copy_from_slice(bytes))
}

/// A ping is answered by the next server on the way only. Input of no bytes is passed on to the node, and goes no
/// further.
async fn alive(
    to: &mut (impl futures::Sink<Message, Error = SocketError> + Unpin),
) -> Result<(), SocketError> {
    to.send(Message::Ping(Bytes::new())).await?;
    to.send(message(&[STDIN])).await
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    fn said(channel: u8, text: &str) -> Message {
        message(&[&[channel], text.as_bytes()].concat())
    }

    /// What a reader gets of these messages, and the error at the end.
    async fn heard(
        messages: Vec<Result<Message, SocketError>>,
        goes_on: bool,
    ) -> (Vec<(Output, String)>, Option<String>) {
        let (chunks, mut output) = mpsc::channel(WAITING);
        let messages = stream::iter(messages);
        let lost = if goes_on {
            read(messages.chain(stream::pending()), &chunks).await
        } else {
            read(messages, &chunks).await
        };
        drop(chunks);
        let mut all = Vec::new();
        while let Some(chunk) = output.recv().await {
            let chunk = chunk.unwrap();
            all.push((
                chunk.stream,
                String::from_utf8(chunk.bytes.to_vec()).unwrap(),
            ));
        }
        (all, lost.map(|lost| crate::executor::outage::chain(&lost)))
    }

    #[tokio::test(start_paused = true)]
    async fn output_comes_in_the_order_in_which_it_was_written() {
        let messages = ["a", "b", "c", "d"]
            .into_iter()
            .zip([STDOUT, STDERR, STDOUT, STDERR]);
        let messages = messages.map(|(text, channel)| Ok(said(channel, text)));
        let opened = [
            said(STDOUT, ""),
            said(STDERR, ""),
            Message::Pong(Bytes::new()),
        ]
        .map(Ok);
        let end = r#"{"kind":"Status","status":"Success"}"#;
        let all = opened
            .into_iter()
            .chain(messages)
            .chain([Ok(said(STATUS, end)), Ok(said(STDOUT, "x"))]);
        let (output, lost) = heard(all.collect(), true).await;
        let texts: String = output.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!((texts.as_str(), lost), ("abcd", None));
        assert_eq!(output[1].0, Output::Stderr);
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_connection_is_an_error_and_a_silent_one_too() {
        let broken = vec![Ok(said(STDOUT, "a")), Err(SocketError::ConnectionClosed)];
        let (output, lost) = heard(broken, true).await;
        assert_eq!(output.len(), 1);
        assert!(
            lost.unwrap()
                .starts_with("failed to read a container's output")
        );
        let (_, lost) = heard(vec![Ok(said(STDOUT, "a"))], true).await;
        assert!(lost.unwrap().ends_with("did not answer within 60 s"));
        assert_eq!(heard(vec![Ok(Message::Close(None))], true).await.1, None);
        assert_eq!(heard(Vec::new(), false).await.1, None);
    }

    #[tokio::test(start_paused = true)]
    async fn input_is_passed_on_in_pieces_with_signs_of_life() {
        use tokio::io::AsyncWriteExt as _;

        let (mut input, written) = tokio::io::duplex(PIECE);
        let (sent, mut received) = futures::channel::mpsc::unbounded();
        let sent = Box::pin(sent.sink_map_err(|_| SocketError::ConnectionClosed));
        let writing = AbortOnDropHandle::new(TaskTracker::new().spawn(write(sent, written)));
        input.write_all(&vec![7; 3 * PIECE / 2]).await.unwrap();
        let mut bytes = 0;
        while bytes < 3 * PIECE / 2 {
            let Some(Message::Binary(piece)) = received.next().await else {
                panic!("no piece");
            };
            assert!(piece.len() <= PIECE + 1 && piece[0] == STDIN);
            bytes += piece.len() - 1;
        }
        drop(input);
        assert_eq!(received.next().await, Some(Message::Ping(Bytes::new())));
        assert_eq!(received.next().await, Some(message(&[STDIN])));
        drop(received);
        let lost = writing.await.unwrap().unwrap();
        assert_eq!(lost.operation, "write a container's input");
    }
}
