//! Two servers behind a balancer, used by several clients at once: each is told what it would be told by one server alone.

mod client;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use self::client::{Client, digest};
use crate::kubernetes_replicas::replica_with;
use crate::support::balancer::Balancer;
use crate::support::cluster::Share;
use crate::support::server::{Server, free_address};

/// How long a server may take to be ready on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often each client does all that it does.
const ROUNDS: usize = 6;
/// How many of them there are for each balancer.
const CLIENTS: usize = 4;
/// The largest upload.
const LARGE: usize = 50 << 20;
/// Room for all of them, and a time after which runs are tasks.
const ROOM: [(&str, &str); 3] = [
    ("MAX_CONCURRENT_RUNS", "10"),
    ("MAX_WARM_SANDBOXES", "10"),
    ("CALL_BUDGET", "3s"),
];

/// Bytes of which no two parts are alike.
fn content(seed: usize, length: usize) -> Vec<u8> {
    let mut state = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Programs: at once, with their output as it comes, and apart from their call.
async fn runs(client: &Client, round: usize, told: &mut Vec<Value>) {
    let count = "n=$(cat count 2>/dev/null || echo 0); n=$((n + 1)); echo $n >count; echo $n";
    told.push(client.run(count).await);
    let slow = "for i in 1 2 3; do echo line $i; echo no $i >&2; sleep 0.05; done; exit 3";
    told.push(client.run_live(slow).await);
    if round.is_multiple_of(3) {
        let task = format!("echo {round} >>tasks; sleep 3.5; cat tasks");
        told.push(client.run_as_task(&task).await);
    }
    let (begun, ended) = client.run_named("echo begun; sleep 0.1; echo ended").await;
    told.extend([begun, ended]);
    let body = json!({ "code": count, "language": "shell", "session_id": client.conversation });
    let executed = client.post("/api/v1/execute_sync", body).await;
    told.push(json!([
        executed["success"],
        executed["stdout"],
        executed["result"]
    ]));
}

/// Files: there, back, in part, listed and deleted.
async fn files(client: &Client, round: usize, told: &mut Vec<Value>) {
    let (name, bytes) = (format!("dir/{round}.bin"), content(round, 100_000 + round));
    told.push(client.put(&name, bytes.clone()).await);
    told.push(client.get(&name, None).await);
    told.push(client.get(&name, Some((1000, 4999))).await);
    assert_eq!(told.last().unwrap()[1], digest(&bytes[1000..5000]));
    told.push(client.run("sha256sum dir/*.bin; wc -c <dir/*.bin").await);
    told.push(client.list().await);
    told.push(client.put("short", content(round, 10)).await);
    told.push(client.delete("short").await);
    told.push(client.delete("short").await);
    told.push(client.get("short", None).await);
    told.push(client.list().await);
    told.push(client.delete(&name).await);
}

/// One of the largest there is.
async fn large_file(client: &Client, told: &mut Vec<Value>) {
    let bytes = content(client.conversation.len(), LARGE);
    told.push(client.put("large.bin", bytes.clone()).await);
    told.push(client.get("large.bin", None).await);
    assert_eq!(told.last().unwrap()[1], digest(&bytes));
    told.push(
        client
            .get("large.bin", Some((LARGE - 5000, LARGE - 1)))
            .await,
    );
    assert_eq!(told.last().unwrap()[1], digest(&bytes[LARGE - 5000..]));
    told.push(client.put_refused("large.bin", bytes).await);
    told.push(client.delete("large.bin").await);
}

/// A session whose stream breaks off and is taken up again.
async fn session(client: &Client, told: &mut Vec<Value>) {
    let session = client.open().await;
    let mut stream = session.listen(None).await;
    told.push(session.run(2, "exit 1").await);
    let seen = stream.next().await;
    drop(stream);
    told.push(session.run(3, "exit 2").await);
    told.push(session.run(4, "exit 3").await);
    let mut stream = session.listen(Some(&seen.id)).await;
    let missed = [stream.next().await, stream.next().await];
    let codes = [&seen, &missed[0], &missed[1]]
        .map(|event| event.data["params"]["data"]["exitCode"].clone());
    told.push(json!(codes));
    told.push(session.close().await);
}

/// All that a client is told, without what differs from one to the next.
async fn all(client: Client) -> (Vec<Value>, usize) {
    let mut told = Vec::new();
    for round in 0..ROUNDS {
        runs(&client, round, &mut told).await;
        files(&client, round, &mut told).await;
        if round == 1 {
            large_file(&client, &mut told).await;
        }
        if round.is_multiple_of(2) {
            session(&client, &mut told).await;
        }
    }
    (told, client.calls())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_answer_as_one_does() {
    let share = Share::new();
    let mut servers: Vec<Server> = Vec::new();
    for _ in 0..2 {
        let server = replica_with(&share, free_address().await, &ROOM);
        server.until_listening().await;
        server.until_ready(PATIENCE).await;
        servers.push(server);
    }
    let addrs = [servers[0].addr(), servers[1].addr()];
    let (expected, _) = all(Client::new(addrs[0], "alone-0")).await;
    let connections = Balancer::of_connections(&addrs).await;
    let requests = Balancer::of_requests(&addrs).await;
    let (tasks, begun) = (TaskTracker::new(), Instant::now());
    let clients: Vec<_> = (0..CLIENTS)
        .flat_map(|number| [(connections.addr, number), (requests.addr, number)])
        .map(|(addr, number)| {
            let conversation = if addr == connections.addr {
                "conns"
            } else {
                "calls"
            };
            tasks.spawn(all(Client::new(addr, &format!("{conversation}-{number}"))))
        })
        .collect();
    let mut calls = 0;
    for client in clients {
        let (told, made) = client.await.unwrap();
        for (number, (told, expected)) in told.iter().zip(&expected).enumerate() {
            assert_eq!(told, expected, "answer {number}");
        }
        assert_eq!(told.len(), expected.len());
        calls += made;
    }
    #[expect(clippy::print_stdout, reason = "the figures of docs/kubernetes.md")]
    {
        println!("{calls} calls in {:.1?}", begun.elapsed());
    }
    assert!(calls >= 1000, "{calls}");
}
