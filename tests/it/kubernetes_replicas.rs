//! Two servers as processes of their own, of which one leads: what becomes of the other when that one ends.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::support::cluster::{Share, object};
use crate::support::server::{Server, free_address};
use crate::support::wait::within;

/// How long a pod may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// `LEASE_DURATION`, which is the default.
const LEASE: Duration = Duration::from_secs(10);
/// How long a leader that was frozen may live on, on a machine that does other things too.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The exit code of a leader that may not lead any more.
const LOST: i32 = 75;

/// Two servers on one root.
struct Replicas {
    share: Share,
    first: Server,
    second: Server,
}

impl Replicas {
    /// The first one leads, and the second one stands by.
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    async fn start_with(more: &[(&str, &str)]) -> Self {
        let share = Share::new();
        let first = replica_with(&share, free_address().await, more);
        first.until_listening().await;
        first.until_ready(PATIENCE).await;
        let second = replica_with(&share, free_address().await, more);
        second.until_listening().await;
        second.until_ready(PATIENCE).await;
        assert_eq!(second.get("/readyz").await.1["standby"], true);
        Self {
            share,
            first,
            second,
        }
    }

    /// Who leads, as the cluster knows it.
    async fn leader(&self) -> String {
        let lease = object(&["get", "lease", &self.share.in_claim().to_lowercase()]).await;
        let leader = lease["spec"]["holderIdentity"].as_str().unwrap();
        leader.split('/').nth(1).unwrap_or_default().to_owned()
    }

    /// What a program of the conversation has written last.
    fn tick(&self) -> String {
        let mut directories = std::fs::read_dir(self.share.path().join("data")).unwrap();
        let found = directories
            .find_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("tick")).ok());
        found.unwrap_or_default()
    }

    /// How long it has taken since `begun` until the second one leads; and fails unless it runs programs then.
    async fn hand_over(&self, begun: Instant) -> Duration {
        let leads = async || self.second.log().contains("leads name=").then_some(());
        within(PATIENCE, "the second one leads", leads).await;
        let led = begun.elapsed();
        let run = async || {
            let run = self.second.run("cat a").await.ok()?;
            (run["stdout"] == "kept\n").then_some(())
        };
        within(PATIENCE, "the second one runs a program", run).await;
        assert_eq!(self.leader().await, self.second.addr().to_string());
        #[expect(clippy::print_stdout, reason = "the figures of docs/kubernetes.md")]
        {
            let ran = begun.elapsed();
            println!("leads after {led:.1?}, has run a program after {ran:.1?}");
        }
        led
    }
}

fn replica(share: &Share, addr: SocketAddr) -> Server {
    replica_with(share, addr, &[])
}

pub(crate) fn replica_with(share: &Share, addr: SocketAddr, more: &[(&str, &str)]) -> Server {
    let settings = share.settings("data");
    let lease = share.in_claim().to_lowercase();
    // What holds is another test's matter.
    let weaker = "limits,network-off,secrets,syscalls,writable-paths";
    let mut settings: Vec<_> = settings
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    settings.extend([
        ("ALLOW_WEAKER_SANDBOX", weaker),
        ("ALLOW_NETWORK", "0"),
        ("POOL_SIZE", "0"),
        ("LEADER_LEASE", lease.as_str()),
    ]);
    settings.extend(more);
    Server::begin_at(addr, share.path(), &settings)
}

#[tokio::test]
async fn one_that_is_told_to_stop_hands_over() {
    let mut replicas = Replicas::start().await;
    let leader = replicas.first.addr().to_string();
    assert_eq!(replicas.leader().await, leader);
    // Through the one that stands by.
    let run = replicas.second.run("echo kept > a; echo done").await;
    assert_eq!(run.unwrap()["stdout"], "done\n");
    let (status, health) = replicas.second.get("/api/v1/health").await;
    assert_eq!(status, 200, "{health}");
    let begun = Instant::now();
    replicas.first.signal(Signal::TERM);
    assert_eq!(replicas.first.ended(PATIENCE).await.code(), Some(0));
    let led = replicas.hand_over(begun).await;
    // Nobody waited until the lease of the one before was over.
    assert!(led < LEASE, "{led:?}");
    // One that stands by hands nothing over.
    let mut third = replica(&replicas.share, free_address().await);
    third.until_listening().await;
    third.until_ready(PATIENCE).await;
    third.signal(Signal::TERM);
    assert_eq!(third.ended(PATIENCE).await.code(), Some(0));
    assert_eq!(replicas.leader().await, replicas.second.addr().to_string());
}

/// While its runs go on, whoever follows them through the other one still reaches it.
#[tokio::test]
async fn one_that_waits_for_its_runs_is_asked_about_them() {
    let mut replicas = Replicas::start_with(&[("CALL_BUDGET", "1s")]).await;
    let second = &replicas.second;
    let code = "echo kept > a; while [ ! -e go ]; do sleep 0.05; done; echo done";
    let run = second.run_for(60, code).await.unwrap();
    assert_eq!(run["status"], "running", "{run}");
    replicas.first.signal(Signal::TERM);
    let stopping = async || replicas.first.log().contains("no new runs").then_some(());
    within(PATIENCE, "the first one is stopping", stopping).await;
    // Each of these is a connection of its own.
    let refused = second.run_for(5, "echo").await.unwrap();
    assert_eq!(refused["code"], "stopping", "{refused}");
    let get_run = async || {
        let arguments = json!({ "runId": run["runId"], "waitSeconds": 30 });
        second.call("get_run", arguments).await
    };
    assert_eq!(get_run().await["status"], "running");
    let (status, files) = second
        .get_as_client("/api/v1/conversations/demo/files")
        .await;
    assert_eq!(
        (status, files["files"][0]["name"].as_str()),
        (200, Some("a")),
        "{files}"
    );
    let directories = std::fs::read_dir(replicas.share.path().join("data")).unwrap();
    let workspace = directories
        .map(|entry| entry.unwrap().path())
        .find(|path| path.join("a").exists());
    std::fs::write(workspace.unwrap().join("go"), "").unwrap();
    let ended = get_run().await;
    assert_eq!(
        (&ended["status"], &ended["stdout"]),
        (&json!("ok"), &json!("done\n")),
        "{ended}"
    );
    assert_eq!(replicas.first.ended(PATIENCE).await.code(), Some(0));
    replicas.hand_over(Instant::now()).await;
}

#[tokio::test]
async fn one_that_is_killed_is_followed_after_its_lease() {
    let mut replicas = Replicas::start().await;
    let code = "echo kept > a; while :; do date +%s%N > tick; sleep 0.01; done";
    let run = TaskTracker::new().spawn(replicas.second.run(code));
    let begun = async || (!replicas.tick().is_empty()).then_some(());
    within(PATIENCE, "the program runs", begun).await;
    let killed = Instant::now();
    replicas.first.signal(Signal::KILL);
    replicas.first.ended(PATIENCE).await;
    // What was passed on is answered at once.
    assert!(run.await.unwrap().is_err());
    let led = replicas.hand_over(killed).await;
    assert!(led <= LEASE + Duration::from_secs(3), "{led:?}");
}

#[tokio::test]
async fn one_that_was_frozen_ends_before_it_does_anything() {
    let mut replicas = Replicas::start().await;
    let code = "echo kept > a; while :; do date +%s%N > tick; sleep 0.01; done";
    let run = TaskTracker::new().spawn(replicas.second.run(code));
    let begun = async || (!replicas.tick().is_empty()).then_some(());
    within(PATIENCE, "the program runs", begun).await;
    let frozen = Instant::now();
    replicas.first.signal(Signal::STOP);
    let led = replicas.hand_over(frozen).await;
    assert!(led <= LEASE + Duration::from_secs(3), "{led:?}");
    // Its connection was open all the time, and so was the sandbox.
    assert!(run.await.unwrap().is_err());
    let last = replicas.tick();
    let files = replicas.share.path().join("data/.servers");
    let servers = || std::fs::read_dir(&files).unwrap().count();
    let registered = servers();
    replicas.first.signal(Signal::CONT);
    let status = replicas.first.ended(AT_ONCE).await;
    assert_eq!(status.code(), Some(LOST), "{}", replicas.first.log());
    assert_eq!(servers(), registered);
    assert_eq!(replicas.tick(), last);
    assert_eq!(replicas.leader().await, replicas.second.addr().to_string());
    let run: Value = replicas.second.run("cat a").await.unwrap();
    assert_eq!(run["stdout"], "kept\n", "{run}");
}
