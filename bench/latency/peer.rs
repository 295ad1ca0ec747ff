//! Following runs of another sandbox beside ours: llm-sandbox with bubblewrap, which shares the host's Python and
//! keeps its session open.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::cases;
use super::server::Server;
use super::stats::Series;

const ROUNDS: usize = 50;
const SCRIPT: &str = include_str!("peer.py");

/// An open session.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Opens a session with a Python that has llm-sandbox.
    fn open(python: &str) -> Self {
        let mut child = Command::new(python)
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut peer = Self {
            child,
            input,
            output,
        };
        peer.answer();
        peer
    }

    /// How long a run took, as its own caller sees it.
    fn run(&mut self) -> Duration {
        self.input.write_all(b"\n").unwrap();
        let milliseconds: f64 = self.answer().parse().unwrap();
        Duration::from_secs_f64(milliseconds / 1e3)
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn close(mut self) {
        drop(self.input);
        self.child.wait().unwrap();
    }
}

/// One run of each in turn, so that all have the same minutes. llm-sandbox is that of `python`.
pub(crate) async fn measure(python: &str) {
    let mut peer = Peer::open(python);
    let server = Server::start(&[("POOL_SIZE", "2")]).await;
    server.wait_until_full().await;
    let (mut docker, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    server.run("beside a peer", cases::PRINT).await;
    for _ in 0..ROUNDS {
        docker.push(cases::docker_run_once("mcp-sandbox-python", "print(1)"));
        tokio::time::sleep(cases::BETWEEN).await;
        ours.push(cases::timed(&server, "beside a peer", cases::PRINT).await);
        tokio::time::sleep(cases::BETWEEN).await;
        theirs.push(peer.run());
    }
    peer.close();
    server.stop();
    println!("\n{}", Series::HEADER);
    let docker = Series::new("`docker run`, print(1)", docker);
    docker.print(None);
    let rows = [
        ("following run, print(1), in turn with these", ours),
        (
            "llm-sandbox with bubblewrap, open session, print(1)",
            theirs,
        ),
    ];
    for (name, times) in rows {
        Series::new(name, times).print(Some(docker.median()));
    }
}
