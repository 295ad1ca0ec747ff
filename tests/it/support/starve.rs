//! A way to the API server by which watches begin and then bring nothing, as behind a proxy that has forgotten them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::cluster::given;

/// What a request for a watch has in its first line.
const WATCH: &[u8] = b"watch=true";
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// It is there until it is dropped. Kubernetes' own client speaks to the cluster for it, so that requests can be told
/// apart.
pub(crate) struct Starved {
    addr: SocketAddr,
    _client: Child,
    _serving: AbortOnDropHandle<()>,
}

impl Starved {
    pub(crate) async fn start() -> Self {
        let mut client = Command::new("kubectl")
            .args(["--kubeconfig", &given("KUBE_TEST_SERVER_CONFIG")])
            .args(["proxy", "--port", "0", "--reject-paths", "^$"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let said = BufReader::new(client.stdout.take().unwrap());
        let line = said.lines().next_line().await.unwrap().unwrap();
        // Starting to serve on 127.0.0.1:41027
        let upstream: SocketAddr = line.rsplit(' ').next().unwrap().parse().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let serve = async move {
            let connections = TaskTracker::new();
            loop {
                let (from, _) = listener.accept().await.unwrap();
                connections.spawn(carry(from, upstream));
            }
        };
        Self {
            addr,
            _client: client,
            _serving: AbortOnDropHandle::new(TaskTracker::new().spawn(serve)),
        }
    }

    /// Writes what says where it is, with the namespace of the tests.
    pub(crate) fn kubeconfig(&self, directory: &Path, namespace: &str) -> PathBuf {
        let path = directory.join("starved.kubeconfig");
        let config = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"http://{}\"}}}}]\nusers: []\n\
             contexts: [{{name: x, context: {{cluster: c, user: \"\", namespace: {namespace}}}}}]\ncurrent-context: x\n",
            self.addr
        );
        std::fs::write(&path, config).unwrap();
        path
    }
}

async fn carry(from: TcpStream, upstream: SocketAddr) {
    let to = TcpStream::connect(upstream).await.unwrap();
    let ((from, back), (answers, to)) = (from.into_split(), to.into_split());
    let (is_watch, watches) = watch::channel(false);
    tokio::join!(requests(from, to, is_watch), starve(answers, back, watches));
}

/// Passes requests on, and says when one is a watch.
async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, is_watch: watch::Sender<bool>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if find(&buffer[..count], WATCH).is_some() {
            is_watch.send_replace(true);
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// Passes answers back: of a watch no more than that it has begun.
async fn starve(
    mut answers: OwnedReadHalf,
    mut back: OwnedWriteHalf,
    watches: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 1 << 16];
    let mut has_begun = false;
    while let Ok(count @ 1..) = answers.read(&mut buffer).await {
        let mut answer = &buffer[..count];
        if has_begun {
            continue;
        }
        if *watches.borrow()
            && let Some(end) = find(answer, END_OF_HEAD)
        {
            (answer, has_begun) = (&answer[..end + END_OF_HEAD.len()], true);
        }
        if back.write_all(answer).await.is_err() {
            return;
        }
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
