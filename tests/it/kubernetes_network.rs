//! What sandboxes reach of the cluster where its filter keeps them from leaving the network of their pods. The network of
//! the cluster that is made of containers enforces no policies: here, rules in its nodes take the place of one that does.
//! So each test has the cluster for itself.

use serde_json::Value;

use crate::support::TestApp;
use crate::support::cluster::{Share, kubectl, on_node};

/// The nodes, and what in each is on the way from pods to the API server, which is on the first; with how that is closed.
const NODES: [(&str, &str, &str); 2] = [("n1", "INPUT", "DROP"), ("n2", "FORWARD", "REJECT")];
/// With the filter that does not let sandboxes leave, and none started ahead.
const USUAL: [(&str, &str); 2] = [("KUBE_SECCOMP", "RuntimeDefault"), ("POOL_SIZE", "0")];

/// Adds or removes what closes the ways of a node.
async fn change(action: &str, (node, chain, target): (&str, &str, &str)) {
    let rule = [
        "iptables",
        "--wait",
        action,
        chain,
        "--in-interface",
        "cni0",
    ];
    let what = ["--protocol", "tcp", "--dport", "6443", "--jump", target];
    on_node(node, &[&rule[..], &what].concat()).await;
}

/// Applies the policies of the manifests, or deletes them.
async fn policies(share: &Share, action: &str) {
    let file = share.path().join("policies.yaml");
    let policies = include_str!("../../deploy/kubernetes/network-policies.yaml");
    std::fs::write(&file, policies).unwrap();
    kubectl(&[action, "--filename", file.to_str().unwrap()]).await;
}

async fn avoided(app: &TestApp) -> Vec<String> {
    let ready = app.get("/readyz").await.json();
    let avoided = ready["avoidedNodes"].as_object();
    let nodes = avoided.map(|avoided| avoided.keys().cloned().collect());
    nodes.unwrap_or_default()
}

fn hint(run: &Value) -> &str {
    assert_eq!(run["status"], "engine_lost", "{run}");
    assert_eq!(run["stdout"], "", "{run}");
    let hint = run["hint"].as_str().unwrap();
    assert!(hint.contains("failed to keep the sandbox"), "{hint}");
    hint
}

/// What a program sees and reaches.
const LOOK: &str = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '";

#[tokio::test]
async fn nothing_runs_where_nobody_enforces_policies_and_the_nodes_are_named() {
    let share = Share::new();
    policies(&share, "apply").await;
    let app = TestApp::on_kubernetes_with(&USUAL).await;
    let first = app.run("shell", LOOK).await;
    let found = avoided(&app).await;
    let second = app.run("shell", LOOK).await;
    policies(&share, "delete").await;
    let said = hint(&first);
    assert!(
        said.contains("10.96.0.1:443 answered from there, on the node n"),
        "{said}"
    );
    assert_eq!(found, ["n1", "n2"]);
    let said = hint(&second);
    let named = [
        "no node is left",
        "10.96.0.1:443 answered on n1",
        "10.96.0.1:443 answered on n2",
    ];
    assert!(named.iter().all(|it| said.contains(it)), "{said}");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn programs_run_in_the_network_of_their_pods_where_policies_are_enforced() {
    let share = Share::new();
    policies(&share, "apply").await;
    let [first, second] = NODES;
    change("--append", first).await;
    // The other one is left out, whether it was tried or not.
    let mut runs = vec![run_on(&[]).await];
    change("--append", second).await;
    for node in ["kubernetes.io/hostname=n1", "kubernetes.io/hostname=n2"] {
        runs.push(run_on(&[("KUBE_NODE_SELECTOR", node)]).await);
    }
    policies(&share, "delete").await;
    let unclosed = run_on(&[]).await;
    for node in NODES {
        change("--delete", node).await;
    }
    for (run, avoided) in &runs {
        let seen = run["stdout"].as_str().unwrap_or_default();
        assert!(seen.contains("eth0\n"), "{run}");
        assert!(avoided.is_empty() || avoided == &[second.0], "{avoided:?}");
    }
    let avoided = runs.iter().skip(1).map(|(_, avoided)| avoided.len());
    assert_eq!(avoided.sum::<usize>(), 0);
    let said = hint(&unclosed.0);
    assert!(
        said.contains("no NetworkPolicy selects sandboxes"),
        "{said}"
    );
    assert_eq!(unclosed.1, [""; 0]);
}

/// A run on a server of its own, with these settings, and the nodes that it avoids then.
async fn run_on(more: &[(&str, &str)]) -> (Value, Vec<String>) {
    let app = TestApp::on_kubernetes_with(&[&USUAL[..], more].concat()).await;
    let run = app.run("shell", LOOK).await;
    let avoided = avoided(&app).await;
    app.assert_nothing_is_left().await;
    (run, avoided)
}
