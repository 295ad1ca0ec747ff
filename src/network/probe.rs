//! Tries to reach the host from a program, as hostile code would.
//!
//! A listener of our own on all of the host's addresses answers a word that nobody can guess; the program dials it
//! there and nowhere else. If the word comes through, the network is open to the host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::conversation::ConversationId;
use crate::executor::spec::NetworkAccess;
use crate::executor::{Network, Stream};
use crate::files::ConversationFiles;
use crate::run::outcome::RunStatus;
use crate::run::{KernelWish, Live, Place, RunRequest, Runs};

/// Dials each of `TARGETS` and prints what it hears. Many at once, since one that is closed takes all of its time.
const PROGRAM: &str = r#"
dial() { exec 3<>"/dev/tcp/$1/$PORT" && head -c 32 <&3; }
export -f dial
printf '%s\n' $TARGETS | xargs -P 16 -I{} timeout 2 bash -c 'dial {} && echo " {}"' 2>/dev/null
echo done
"#;
/// The runner that the program is written for.
const LANGUAGE: &str = "shell";

/// Why the host does not count as closed.
#[derive(Debug)]
pub(super) enum Doubt {
    /// A program heard the word.
    Open,
    /// No program could try it to the end, for this reason.
    NotTried(String),
}

/// Succeeds when a program on the network was not able to reach the host.
pub(super) async fn host_is_closed(
    runs: &Runs,
    network: &Network,
    dns: &[IpAddr],
) -> Result<(), Doubt> {
    let cannot = |error: &dyn std::fmt::Display| Doubt::NotTried(error.to_string());
    let listener = Listener::open().await.map_err(|error| cannot(&error))?;
    let targets = host_addresses(network);
    let conversation = Conversation {
        files: &runs.files,
        id: ConversationId::mint(),
    };
    let request = RunRequest {
        conversation: conversation.id.clone(),
        language: LANGUAGE.to_owned(),
        code: PROGRAM.to_owned(),
        network: true,
        environment: BTreeMap::from([
            ("PORT".to_owned(), listener.port.to_string()),
            (
                "TARGETS".to_owned(),
                targets
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
        ]),
        timeout: Some(
            Duration::from_secs(20 + 2 * targets.len() as u64).min(runs.limits.timeout_max),
        ),
        time_argument: None,
        stateful: false,
        kernel: KernelWish::default(),
    };
    let place = Place {
        network: NetworkAccess::Bridge { dns: dns.to_vec() },
        warm: false,
    };
    let live = Live::new(runs.limits.output);
    let never = CancellationToken::new();
    let finished = tokio::select! {
        finished = runs.execute_in(&place, &request, &live, &never) => finished,
        () = listener.answer() => return Err(cannot(&"the probe's listener ended")),
    };
    let finished = finished.map_err(|error| cannot(&error))?;
    let stdout = finished.captured.text(Stream::Stdout);
    if stdout.contains(&listener.word) {
        return Err(Doubt::Open);
    }
    let verdict = finished.verdict;
    if verdict.status != RunStatus::Ok || !stdout.trim_end().ends_with("done") {
        return Err(cannot(
            &verdict
                .hint
                .unwrap_or_else(|| "the probe did not finish".to_owned()),
        ));
    }
    Ok(())
}

/// The probe's own. Dropping it deletes its directory behind whoever does, also in the middle of the probe.
struct Conversation<'a> {
    files: &'a ConversationFiles,
    id: ConversationId,
}

impl Drop for Conversation<'_> {
    fn drop(&mut self) {
        // The first step hands it to those who delete. A failure is the sweeper's business.
        let _ = self.files.delete(&self.id).now_or_never();
    }
}

/// Listens on all of the host's addresses, with a word that nobody can guess.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    pub(crate) port: u16,
    pub(crate) word: String,
}

impl Listener {
    pub(crate) async fn open() -> std::io::Result<Self> {
        let socket = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        Ok(Self {
            port: socket.local_addr()?.port(),
            word: hex::encode(rand::random::<[u8; 16]>()),
            socket,
        })
    }

    /// Says the word to everyone who calls. Never ends.
    pub(crate) async fn answer(&self) {
        loop {
            if let Ok((mut stream, _)) = self.socket.accept().await {
                let _ = stream.write_all(self.word.as_bytes()).await;
            }
        }
    }
}

/// The host's own IPv4 addresses, and its address on the runs' network.
pub(crate) fn host_addresses(network: &Network) -> BTreeSet<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let addresses = interfaces
        .iter()
        .map(if_addrs::Interface::ip)
        .filter(|ip| ip.is_ipv4() && !ip.is_loopback());
    let gateway = network
        .gateway
        .as_ref()
        .and_then(|gateway| gateway.parse().ok());
    addresses.chain(gateway).collect()
}
