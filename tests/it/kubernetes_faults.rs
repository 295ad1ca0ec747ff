//! What becomes of containers when the cluster fails or is full. These tests break the cluster that is made of containers,
//! so each has it for itself.

use std::sync::Arc;
use std::time::Duration;

use mcp_code_sandbox::config::Seccomp;
use mcp_code_sandbox::executor::{
    ContainerEnd, ContainerState, ErrorKind, Executor as _, NetworkRules,
};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

use crate::kubernetes_executor::{Pod, refusal, told, within};
use crate::support::cluster::{Share, freeze, kubectl, namespace, on_node, own_network_profile};
use crate::support::pods::OnCluster;
use crate::support::server::Server;
use crate::support::starve::Starved;

/// How long anything may take.
const AGES: Duration = Duration::from_mins(2);
/// How long the store of the cluster is away.
const AWAY: Duration = Duration::from_secs(3);
/// The node of the control plane, and the other one.
const CONTROL: &str = "n1";
const OTHER: &str = "n2";

#[tokio::test]
async fn an_api_server_that_is_killed_ends_the_streams_with_an_error() {
    let on = Arc::new(OnCluster::new());
    let mut pod = Pod::start(&on, &on.shell().await).await;
    pod.send("sleep 60").await;
    on_node(CONTROL, &["pkill", "-KILL", "-x", "kube-apiserver"]).await;
    let lost = pod.end().await.unwrap_err();
    assert_eq!(lost.kind, ErrorKind::Unavailable, "{}", told(&lost));
    // It comes back, and so do we.
    let back = async {
        while on.executor.ping().await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    within(back).await;
    within(async { while on.executor.remove(&pod.id).await.is_err() {} }).await;
    let mut again = Pod::start(&on, &on.shell().await).await;
    assert_eq!(again.run("echo hi").await.0, "hi\n");
    again.remove().await;
}

/// What keeps all objects of the cluster.
#[tokio::test]
async fn a_store_that_is_frozen_or_killed_loses_no_run() {
    let on = Arc::new(OnCluster::new());
    let spec = on.shell().await;
    let mut pod = Pod::start(&on, &spec).await;
    for (signal, next) in [("-STOP", Some("-CONT")), ("-KILL", None)] {
        on_node(CONTROL, &["pkill", signal, "-x", "etcd"]).await;
        // Nobody has to look anything up for it.
        assert_eq!(pod.run("echo hi").await.0, "hi\n");
        let create = async {
            // It is refused while the store is away, and waits while it does not answer.
            loop {
                match on.executor.create(&spec).await {
                    Ok(id) => return id,
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::Unavailable, "{}", told(&error));
                    }
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let go_on = async {
            tokio::time::sleep(AWAY).await;
            if let Some(signal) = next {
                on_node(CONTROL, &["pkill", signal, "-x", "etcd"]).await;
            }
        };
        let (id, ()) = within(async { tokio::join!(create, go_on) }).await;
        within(async { while on.executor.start(&id).await.is_err() {} }).await;
        within(async { while on.executor.remove(&id).await.is_err() {} }).await;
        assert_eq!(pod.run("echo hi").await.0, "hi\n");
    }
    pod.remove().await;
}

#[tokio::test]
async fn an_api_server_that_is_frozen_is_noticed_and_loses_no_run() {
    let on = Arc::new(OnCluster::new());
    let mut pod = Pod::start(&on, &on.shell().await).await;
    pod.send("sleep 1; echo hi").await;
    on_node(CONTROL, &["pkill", "-STOP", "-x", "kube-apiserver"]).await;
    let begun = Instant::now();
    let (ping, state) = tokio::join!(on.executor.ping(), on.executor.state(&pod.id));
    let noticed = begun.elapsed();
    on_node(CONTROL, &["pkill", "-CONT", "-x", "kube-apiserver"]).await;
    for lost in [ping.unwrap_err(), state.unwrap_err()] {
        assert_eq!(lost.kind, ErrorKind::Unavailable, "{}", told(&lost));
    }
    assert!(noticed < Duration::from_secs(7), "{noticed:?}");
    let (output, end) = pod.end().await.unwrap();
    assert_eq!((output[0].1.as_str(), end.is_some()), ("hi\n", true));
    pod.remove().await;
}

/// What becomes of pods is told by the watch, sooner than by anything else: without it, everything works, and later.
#[tokio::test]
async fn a_watch_that_brings_nothing_holds_up_no_container() {
    let starved = Starved::start().await;
    let namespace = namespace().await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = starved.kubeconfig(directory.path(), &namespace);
    let on = Arc::new(OnCluster::with(|config| {
        config.kubeconfig = Some(kubeconfig);
    }));
    let mut pod = Pod::start(&on, &on.shell().await).await;
    assert_eq!(pod.run("echo hi").await.0, "hi\n");
    assert!(
        on.executor.containers_by_node().is_empty(),
        "nothing is heard of it"
    );
    // A frame that is none ends PID 1.
    let no_frame = [0, 0, 0, 1, b'x'];
    pod.attached.input.write_all(&no_frame).await.unwrap();
    assert!(pod.end().await.unwrap().1.is_none());
    let over = async {
        while on.executor.state(&pod.id).await.unwrap() == ContainerState::Running {}
        on.executor.state(&pod.id).await.unwrap()
    };
    let end = ContainerState::Ended(ContainerEnd::Exited(Some(70)));
    assert_eq!(within(over).await, end);
    pod.remove().await;
}

#[tokio::test]
async fn a_kubelet_that_is_killed_ends_the_streams_of_its_node_only() {
    let (on, beside) = (OnCluster::on_node(OTHER), OnCluster::on_node(CONTROL));
    let (on, beside) = (Arc::new(on), Arc::new(beside));
    let mut pod = Pod::start(&on, &on.shell().await).await;
    let mut other = Pod::start(&beside, &beside.shell().await).await;
    pod.send("sleep 60").await;
    on_node(OTHER, &["pkill", "-KILL", "-x", "kubelet"]).await;
    // With an error, or as the container's own end: standard input is closed, which ends it.
    let ended = pod.end().await;
    assert!(!matches!(ended, Ok((_, Some(_)))), "{ended:?}");
    assert_eq!(other.run("echo hi").await.0, "hi\n");
    other.remove().await;
    within(async { while on.executor.remove(&pod.id).await.is_err() {} }).await;
    let mut again = Pod::start(&on, &on.shell().await).await;
    assert_eq!(again.run("echo hi").await.0, "hi\n");
    again.remove().await;
}

/// The cluster itself takes a pod for running long after its node was heard of last.
#[tokio::test]
async fn a_node_that_is_frozen_is_told_from_a_program_that_takes_long() {
    let on = Arc::new(OnCluster::on_node(OTHER));
    let mut pod = Pod::start(&on, &on.shell().await).await;
    pod.send("sleep 1").await;
    let state = on.executor.state(&pod.id).await.unwrap();
    assert_eq!(state, ContainerState::Running);
    freeze(OTHER, "pause").await;
    let state = on.executor.state(&pod.id).await;
    freeze(OTHER, "unpause").await;
    let lost = state.unwrap_err();
    assert_eq!(lost.kind, ErrorKind::Unavailable, "{}", told(&lost));
    assert!(pod.end().await.unwrap().1.is_some());
    pod.remove().await;
}

#[tokio::test]
async fn a_namespace_that_is_full_is_told_apart_from_one_that_refuses() {
    let on = OnCluster::with(|config| config.namespace = Some("kubernetes-quota".to_owned()));
    let spec = OnCluster::new().shell().await;
    // Without an account to make pods there.
    let error = refusal(&on, &spec).await;
    assert_eq!(error.kind, ErrorKind::Unusable, "{}", told(&error));
    let quota = format!("quota-{}", on.share.in_claim().to_lowercase());
    kubectl(&["create", "quota", &quota, "--hard", "pods=0"]).await;
    let here = OnCluster::new();
    // It takes the cluster a moment to count.
    let full = async {
        loop {
            match here.executor.create(&spec).await {
                Ok(id) => here.executor.remove(&id).await.unwrap(),
                Err(error) => return (error.kind, told(&error)),
            }
        }
    };
    let (kind, said) = within(full).await;
    kubectl(&["delete", "quota", &quota]).await;
    assert_eq!(kind, ErrorKind::Full, "{said}");
    assert!(said.contains("exceeded quota"), "{said}");
}

#[tokio::test]
async fn the_network_policies_of_the_manifests_are_read_back() {
    let on = OnCluster::new();
    let rules = async || on.executor.network_rules(&[]).await.unwrap();
    let missing = rules().await;
    assert!(matches!(missing, NetworkRules::Missing(_)), "{missing:?}");
    let policies = include_str!("../../deploy/kubernetes/network-policies.yaml");
    let file = on.share.path().join("policies.yaml");
    std::fs::write(&file, policies).unwrap();
    let file = file.to_str().unwrap();
    kubectl(&["apply", "--filename", file]).await;
    let in_place = rules().await;
    kubectl(&["delete", "--filename", file]).await;
    assert_eq!(in_place, NetworkRules::InPlace);
}

/// What programs see of a network: interfaces, routes, and how many processes they may be. `/sys` was mounted with the
/// network of the pod, and lists its interfaces for ever.
const LOOK: &str = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; tail -n +2 /proc/net/route | wc -l; ulimit -u";

#[tokio::test]
async fn sandboxes_leave_the_network_of_their_pods_where_nodes_let_them() {
    let on = Arc::new(OnCluster::with(|config| {
        config.seccomp = Seccomp::Localhost(own_network_profile());
    }));
    let mut pod = Pod::start(&on, &on.shell().await).await;
    assert_eq!(pod.run(LOOK).await.0, "lo\n0\n64\n");
    pod.remove().await;

    // The usual filter does not.
    let on = Arc::new(OnCluster::new());
    let mut pod = Pod::start(&on, &on.shell().await).await;
    let (seen, _) = pod.run(LOOK).await;
    assert!(seen.contains("eth0\n"), "{seen}");
    pod.remove().await;
}

/// Its sandbox was on the node that is gone, and its files are in the claim.
#[tokio::test]
async fn a_conversation_goes_on_when_its_node_is_gone() {
    let share = Share::new();
    let settings = share.settings("data");
    let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
    let weaker = "limits,network-off,secrets,syscalls,writable-paths";
    let more = [
        ("ALLOW_WEAKER_SANDBOX", weaker),
        ("ALLOW_NETWORK", "0"),
        ("POOL_SIZE", "0"),
    ];
    let settings: Vec<_> = settings.chain(more).collect();
    let server = Server::start(share.path(), &settings).await;
    server.until_ready(AGES).await;
    kubectl(&["cordon", CONTROL]).await;
    let first = server.run("echo kept > a; echo done").await;
    kubectl(&["uncordon", CONTROL]).await;
    assert_eq!(first.unwrap()["stdout"], "done\n");
    freeze(OTHER, "pause").await;
    let lost = server.run_for(1, "cat a").await;
    let (begun, mut next) = (Instant::now(), Value::Null);
    while begun.elapsed() < AGES && next["stdout"] != "kept\n" {
        next = server.run("cat a").await.unwrap_or_default();
    }
    let took = begun.elapsed();
    freeze(OTHER, "unpause").await;
    assert_eq!(lost.unwrap()["status"], "engine_lost");
    assert_eq!(next["stdout"], "kept\n", "{next}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}
