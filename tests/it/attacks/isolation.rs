//! Programs that look for a way out: to the host, the server, the kernel, or another container.

use std::net::{IpAddr, Ipv4Addr};

use secrecy::ExposeSecret as _;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use super::{Target, assert_safe};
use crate::support::TOKEN;
use crate::support::cluster::object;

in_cold_and_warm_sandboxes! {
    everything_is_closed,
    no_secret_is_within_reach,
    the_host_does_not_answer,
}

async fn everything_is_closed(target: &Target) {
    let attacks = [
        ("identity.py", 10),
        ("set_ids.py", 10),
        ("watch_init.py", 10),
        ("system_calls.py", 10),
        ("socket_families.py", 20),
        ("foreign_calls.py", 10),
        ("writable_paths.py", 30),
        ("kernel_levers.py", 20),
        ("init_secrets.py", 10),
        ("kill_init.sh", 10),
        ("network_off.py", 10),
    ];
    target.assert_harmless(&attacks).await;
}

async fn no_secret_is_within_reach(target: &Target) {
    let result = target.attack("server_secrets.py", 10).await;
    assert_safe(&result);
    let seen = result["output"].as_str().unwrap();
    assert!(seen.contains("mountinfo"), "it looked: {seen}");
    for secret in [
        TOKEN,
        target.app.app.parts.files.file_secret.expose_secret(),
    ] {
        assert!(!seen.contains(secret), "{seen}");
    }
}

async fn the_host_does_not_answer(target: &Target) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let interfaces = if_addrs::get_if_addrs()
        .unwrap()
        .into_iter()
        .map(|interface| interface.ip());
    let addresses: Vec<_> = interfaces.filter(IpAddr::is_ipv4).collect();
    for &address in &addresses {
        TcpStream::connect((address, port))
            .await
            .expect("it does answer the host");
    }
    let of_host = addresses.iter().map(|address| format!("{address}|{port}"));
    let mut probe: Vec<_> = of_host.collect();
    if target.engine.is_kubernetes() {
        probe.extend(control_plane().await);
    }
    let result = target
        .attack_with("reach_host.py", 60, json!({ "PROBE": probe.join(" ") }))
        .await;
    assert_safe(&result);
    assert_eq!(
        result["stdout"].as_str().unwrap().matches("shut").count(),
        probe.len()
    );
}

/// Where the API server and the kubelets of the cluster listen.
async fn control_plane() -> Vec<String> {
    let service = object(&["--namespace", "default", "get", "service", "kubernetes"]).await;
    let service = service["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let nodes = object(&["get", "nodes"]).await;
    let addresses = nodes["items"].as_array().unwrap().iter();
    let addresses = addresses.flat_map(|node| node["status"]["addresses"].as_array().unwrap());
    let kubelets = addresses
        .filter(|address| address["type"] == "InternalIP")
        .map(|address| format!("{}|10250", address["address"].as_str().unwrap()));
    [format!("{service}|443")]
        .into_iter()
        .chain(kubelets)
        .collect()
}
