//! Tries to reach the host from a program, as hostile code would.
//!
//! We listen on all of the host's addresses; the program dials there and nowhere else. If a single connection succeeds,
//! the network is open to the host. For each address it has to be seen that the program dialled it. That dialling works
//! here is seen from the refusal that it gets in its own sandbox, where nobody listens.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::audit::Origin;
use crate::conversation::Conversation;
use crate::conversations::Conversations;
use crate::executor::Stream;
use crate::executor::spec::{LANE_PREFIX, NetworkAccess};
use crate::gate::Wants;
use crate::parts::Parts;
use crate::principal::Principal;
use crate::run::outcome::RunStatus;
use crate::run::{KernelWish, Outcome, Progress, RunRequest};

/// Dials its own loopback, then each of `TARGETS`, and says so. Several at a time, since a closed one takes all of its
/// time, but no more than even a small `RUN_PIDS` leaves room for. The kernel writes addresses with their last byte
/// first.
const PROGRAM: &str = r#"
export LC_ALL=C
exec 2>&1
while read -r _ destination hex _; do
    [[ $destination == 00000000 ]] &&
        printf -v gateway '%d.%d.%d.%d' "0x${hex:6:2}" "0x${hex:4:2}" "0x${hex:2:2}" "0x${hex:0:2}"
done </proc/net/route
dial() {
    local to=${1/#gateway/$gateway}
    [[ $to ]] && echo "$1 dialled" && true 3<>"/dev/tcp/$to/$PORT" && echo "$1 reached"
}
dial 127.0.0.1
set -- $TARGETS
while (($#)); do
    for target in "${@:1:4}"; do dial "$target" & done
    sleep 2 || exit
    kill $(jobs -p)
    wait
    shift 4 || shift $#
done
echo done
"#;
/// The runner that the program is written for.
const LANGUAGE: &str = "shell";

/// Why the host does not count as closed.
#[derive(Debug)]
pub(super) enum Doubt {
    /// A program was connected.
    Open,
    /// No program could try it to the end, for this reason.
    NotTried(String),
}

/// Succeeds when a program on the network was not able to reach the host.
pub(super) async fn host_is_closed(parts: &Parts, dns: &[IpAddr]) -> Result<(), Doubt> {
    let cannot = |error: &dyn std::fmt::Display| Doubt::NotTried(error.to_string());
    let listener = Listener::open().await.map_err(|error| cannot(&error))?;
    let targets = host_targets();
    let timeout = Duration::from_secs(20 + 2 * targets.len() as u64);
    let own = ProbeConversation {
        conversations: parts.conversations(),
        conversation: parts.files.new_conversation(&Principal::local()),
    };
    let request = RunRequest {
        conversation: own.conversation.clone(),
        language: LANGUAGE.to_owned(),
        code: PROGRAM.to_owned(),
        stdin: None,
        network: true,
        hosts: Vec::new(),
        granted: Vec::new(),
        secrets: Vec::new(),
        environment: BTreeMap::from([
            ("PORT".to_owned(), listener.port.to_string()),
            (
                "TARGETS".to_owned(),
                targets.iter().cloned().collect::<Vec<_>>().join(" "),
            ),
        ]),
        timeout: Some(timeout),
        time_argument: None,
        stateful: false,
        kernel: KernelWish::default(),
    };
    let wants = Wants::Check {
        network: NetworkAccess::Bridge { dns: dns.to_vec() },
        may_be_warm: false,
    };
    let progress = Progress::new(parts.limits.output);
    let never = CancellationToken::new();
    let runs = parts.runs();
    let outcome = runs.check(wants, &request, &progress, &never).await;
    judge(&outcome.map_err(|error| cannot(&error))?, &targets)
}

/// Draws the conclusion from what the program said.
fn judge(outcome: &Outcome, targets: &BTreeSet<String>) -> Result<(), Doubt> {
    let stdout = outcome.captured.text(Stream::Stdout);
    let reports = |target: &String, word: &str| {
        let line = format!("{target} {word}");
        stdout.lines().any(|printed| printed == line)
    };
    if targets.iter().any(|target| reports(target, "reached")) {
        return Err(Doubt::Open);
    }
    let not_tried = |why: &str| Err(Doubt::NotTried(why.to_owned()));
    if outcome.status != RunStatus::Ok || !stdout.trim_end().ends_with("done") {
        let hint = outcome.hint.text();
        return not_tried(hint.as_deref().unwrap_or("the probe did not finish"));
    }
    // A shell that cannot dial says something else about its own loopback.
    let is_told = |line: &str| line.contains("/dev/tcp/127.0.0.1/") && line.ends_with("refused");
    if !stdout.lines().any(is_told) {
        return not_tried("the shell runner is no bash that can dial");
    }
    if !targets.iter().all(|target| reports(target, "dialled")) {
        return not_tried("the probe did not dial every address of the host");
    }
    Ok(())
}

/// The probe's own conversation. Dropping it, even in the middle of the probe, deletes its directory in the background.
struct ProbeConversation {
    conversations: Conversations,
    conversation: Conversation,
}

impl Drop for ProbeConversation {
    fn drop(&mut self) {
        // One poll hands it to the background deletion. If that fails, the sweeper deletes it later.
        let _ = self
            .conversations
            .delete(&Origin::own(), &self.conversation)
            .now_or_never();
    }
}

/// Listens on all of the host's addresses, with an unguessable word.
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

/// What the host can be dialled by from a lane: its own IPv4 addresses, and `gateway`, which stands for its address on
/// that lane. Those on other lanes are left out: there may be hundreds.
pub(crate) fn host_targets() -> BTreeSet<String> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let addresses = interfaces
        .iter()
        .filter(|interface| !interface.name.starts_with(LANE_PREFIX))
        .map(if_addrs::Interface::ip)
        .filter(|ip| ip.is_ipv4() && !ip.is_loopback());
    let gateway = std::iter::once("gateway".to_owned());
    addresses.map(|ip| ip.to_string()).chain(gateway).collect()
}
