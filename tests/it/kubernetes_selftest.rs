//! The selftest on a cluster, by the program itself: everything holds there, and what a pod lacks is noticed.

use mcp_code_sandbox::control::Control;
use serde_json::Value;

use crate::support::cluster::Share;
use crate::support::server::call_in;

/// The exit code and the report.
async fn selftest(more: &[&str], settings: &[(&str, &str)]) -> (Option<i32>, Value) {
    let share = Share::new();
    let own = share.settings("data");
    let own = own.iter().map(|(name, value)| (*name, value.as_str()));
    // Whether policies are enforced is up to the cluster.
    let more_settings = [("ALLOW_NETWORK", "0")]
        .into_iter()
        .chain(settings.iter().copied());
    let settings: Vec<_> = own.chain(more_settings).collect();
    let arguments = [&["selftest", "--json"], more].concat();
    let output = call_in(share.path(), &arguments, &settings).await;
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), report)
}

#[tokio::test]
async fn every_control_holds_cold_and_warm() {
    let (code, report) = selftest(&[], &[("SANDBOX_REUSE", "conversation")]).await;
    assert_eq!(code, Some(0), "{report:#}");
    let rows = report["controls"].as_array().unwrap();
    let tried = |way: &str| {
        let tried = rows.iter().filter(|row| row["way"] == way);
        tried.filter(|row| row["verdict"] == "pass").count()
    };
    let ways = (tried("cold"), tried("warm"));
    assert_eq!(
        ways,
        (Control::ALL.len(), Control::ALL.len() - 3),
        "{report:#}"
    );
}

/// The usual filter of nodes does not let a sandbox leave the network of its pod.
#[tokio::test]
async fn a_pod_that_stays_in_its_network_is_noticed() {
    let only = ["--only", "network-off"];
    let usual = [
        ("KUBE_SECCOMP", "RuntimeDefault"),
        ("SANDBOX_REUSE", "never"),
        ("POOL_SIZE", "0"),
    ];
    let (code, report) = selftest(&only, &usual).await;
    assert_eq!(code, Some(1), "{report:#}");
    let found = report["controls"][0]["found"].as_str().unwrap();
    assert!(found.contains("it has the one of the engine"), "{found}");
}
