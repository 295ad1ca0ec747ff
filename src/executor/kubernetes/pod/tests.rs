use std::path::PathBuf;

use serde_json::Value;

use super::*;
use crate::config::ServerPod;
use crate::executor::host_paths::MountSource;
use crate::executor::spec::{
    ContainerLimits, HatchSpec, Place, Priority, Provided, ReadOnlyMount, User,
};

fn setup() -> PodSetup {
    PodSetup {
        longest_life: Duration::from_hours(25),
        paths: HostPaths {
            root: MountSource::Volume {
                name: "sandboxes".to_owned(),
                path: PathBuf::from("mcp"),
            },
            init: PathBuf::from(".bin/init"),
            wheelhouse: Some(PathBuf::from("/wheels")),
            ca_bundle: None,
        },
        config: KubernetesConfig {
            claim: "sandboxes".to_owned(),
            cpu_request: Some(100_000_000),
            log_limit: 64 << 20,
            server_pod: Some(ServerPod {
                name: "server-0".to_owned(),
                uid: "8c1f".to_owned(),
            }),
            ..Default::default()
        },
        listener: None,
    }
}

fn spec(network: NetworkAccess) -> ContainerSpec {
    let labels = [
        ("sandbox.root", "0a1b"),
        ("sandbox.run-language", "c++"),
        ("sandbox.server", "s1"),
    ];
    ContainerSpec {
        image: "registry.example/shell@sha256:abc".to_owned(),
        command: vec!["/bin/sh".to_owned(), "$(HOME)/run.sh".to_owned()],
        env: vec!["HOME=/tmp".to_owned()],
        data: Place::Slot("s-1".to_owned()),
        read_only: Vec::new(),
        user: User {
            uid: 1000,
            gid: 1000,
        },
        limits: ContainerLimits {
            nano_cpus: Some(500_000_000),
            memory: 256 << 20,
            pids: 128,
            file_size: 256 << 20,
        },
        hatch: HatchSpec::None,
        certificates: None,
        lane: None,
        network,
        priority: Priority::Run,
        avoided_nodes: Vec::new(),
        runtime: None,
        labels: labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    }
}

fn made(spec: &ContainerSpec, setup: &PodSetup) -> Value {
    serde_json::to_value(pod(spec, setup, "sbx-0123456789abcdef", "e1").unwrap()).unwrap()
}

#[test]
fn the_whole_pod_is_pinned() {
    insta::with_settings!({ sort_maps => true }, {
        insta::assert_json_snapshot!(made(&spec(NetworkAccess::None), &setup()));
    });
}

/// What in a pod `PodSecurity` does not let through as *restricted*.
pub(in super::super) fn too_much(pod: &Value) -> Vec<String> {
    let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
    let (of_pod, of_container) = (&spec["securityContext"], &container["securityContext"]);
    let kinds = ["persistentVolumeClaim", "emptyDir", "configMap", "secret"];
    let volumes = spec["volumes"].as_array().unwrap().iter();
    let mut foreign = volumes.flat_map(|volume| volume.as_object().unwrap().keys());
    let rules = [
        (
            "one container",
            spec["containers"].as_array().unwrap().len() == 1,
        ),
        ("no others", spec.get("initContainers").is_none()),
        (
            "not root",
            of_pod["runAsNonRoot"] == true && of_pod["runAsUser"] != 0,
        ),
        (
            "a filter",
            ["RuntimeDefault", "Localhost"].contains(
                &of_pod["seccompProfile"]["type"]
                    .as_str()
                    .unwrap_or_default(),
            ),
        ),
        (
            "no escalation",
            of_container["allowPrivilegeEscalation"] == false,
        ),
        (
            "no capability",
            of_container["capabilities"]["drop"][0] == "ALL",
        ),
        (
            "none added",
            of_container["capabilities"].get("add").is_none(),
        ),
        ("unprivileged", of_container.get("privileged").is_none()),
        ("proc is masked", of_container.get("procMount").is_none()),
        (
            "nothing of the host",
            ["hostNetwork", "hostPID", "hostIPC"]
                .iter()
                .all(|name| spec.get(*name).is_none()),
        ),
        (
            "no port of it",
            !container["ports"].to_string().contains("hostPort"),
        ),
        (
            "its own rules of SELinux, AppArmor and sysctl",
            ["seLinuxOptions", "appArmorProfile", "sysctls"]
                .iter()
                .all(|name| of_pod.get(*name).is_none()),
        ),
        (
            "volumes",
            foreign.all(|key| key == "name" || kinds.contains(&key.as_str())),
        ),
    ];
    let broken = rules.iter().filter(|(_, holds)| !holds);
    broken.map(|(rule, _)| (*rule).to_owned()).collect()
}

#[test]
fn every_pod_is_restricted() {
    let dns = vec![std::net::IpAddr::from([192, 0, 2, 1])];
    let mut special = setup();
    special.config.seccomp = Seccomp::Localhost("sandbox.json".to_owned());
    for network in [NetworkAccess::None, NetworkAccess::Bridge { dns }] {
        for setup in [setup(), special.clone()] {
            let pod = made(&spec(network.clone()), &setup);
            assert_eq!(too_much(&pod), [""; 0]);
            // Beyond it: nothing of the cluster is in there.
            assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
            assert_eq!(
                pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"],
                true
            );
        }
    }
    let mut loose = made(&spec(NetworkAccess::None), &setup());
    loose["spec"]["hostNetwork"] = true.into();
    loose["spec"]["volumes"][1]["hostPath"] = "/".into();
    assert_eq!(too_much(&loose), ["nothing of the host", "volumes"]);
}

#[test]
fn a_network_changes_the_label_the_resolvers_and_what_sandbox_init_is_told() {
    let setup = setup();
    let without = made(&spec(NetworkAccess::None), &setup);
    let dns = vec![std::net::IpAddr::from([192, 0, 2, 1])];
    let mut with = made(&spec(NetworkAccess::Bridge { dns }), &setup);
    let label = &mut with["metadata"]["labels"]["sandbox.network"];
    assert_eq!(label.take(), "egress");
    *label = "none".into();
    let resolver = &mut with["spec"]["dnsConfig"]["nameservers"][0];
    assert_eq!(resolver.take(), "192.0.2.1");
    *resolver = "127.0.0.1".into();
    let told = |pod: &Value| pod["spec"]["containers"][0]["env"].clone();
    assert_ne!(told(&with), told(&without));
    with["spec"]["containers"][0]["env"] = told(&without);
    assert_eq!(with, without);
}

#[test]
fn sandbox_init_is_told_what_a_pod_has_no_field_for() {
    let env = |network: NetworkAccess| limits::for_init(&spec(network));
    let each = "SANDBOX_LIMITS=nofile=4096,fsize=268435456,core=1";
    let egress = NetworkAccess::Bridge { dns: Vec::new() };
    assert_eq!(env(egress), [each]);
    let all = [
        format!("{each},nproc=128"),
        "SANDBOX_NO_NETWORK=try".to_owned(),
    ];
    assert_eq!(env(NetworkAccess::None), all);
}

#[test]
fn nodes_that_are_avoided_are_named_one_by_one() {
    let mut spec = spec(NetworkAccess::None);
    assert_eq!(made(&spec, &setup())["spec"].get("affinity"), None);
    spec.avoided_nodes = vec!["n1".to_owned(), "n2".to_owned()];
    let affinity = made(&spec, &setup())["spec"]["affinity"]["nodeAffinity"].take();
    let terms = &affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    assert_eq!(
        *terms,
        serde_json::json!([{ "matchFields": [
            { "key": "metadata.name", "operator": "NotIn", "values": ["n1"] },
            { "key": "metadata.name", "operator": "NotIn", "values": ["n2"] },
        ] }])
    );
}

#[test]
fn what_is_shown_is_a_part_of_the_claim() {
    let mut spec = spec(NetworkAccess::None);
    spec.read_only = vec![ReadOnlyMount {
        place: Place::Operator(Provided::Wheelhouse),
        target: "/packages/wheelhouse",
    }];
    let pod = made(&spec, &setup());
    let mounts = pod["spec"]["containers"][0]["volumeMounts"]
        .as_array()
        .unwrap();
    let mounts = mounts.iter().map(|mount| {
        let of = |name: &str| mount[name].as_str().unwrap_or("-").to_owned();
        let read_only = if mount["readOnly"] == true {
            " read-only"
        } else {
            ""
        };
        format!(
            "{} {}:{}{read_only}",
            of("mountPath"),
            of("name"),
            of("subPath")
        )
    });
    insta::assert_snapshot!(mounts.collect::<Vec<_>>().join("\n"), @"
    /data files:mcp/.tmp/s-1
    /mnt/data files:mcp/.tmp/s-1
    /.sandbox-init files:mcp/.bin/init read-only
    /packages/wheelhouse files:wheels read-only
    /tmp tmp:-
    /dev/shm shm:-
    ");
    spec.read_only[0].place = Place::Operator(Provided::CaBundle);
    assert!(super::pod(&spec, &setup(), "sbx-1", "e1").is_err());
}

#[test]
fn without_a_limit_on_processor_time_there_is_none() {
    let mut spec = spec(NetworkAccess::None);
    spec.limits.nano_cpus = None;
    let resources = made(&spec, &setup())["spec"]["containers"][0]["resources"].take();
    assert_eq!(resources["limits"].get("cpu"), None);
    assert_eq!(resources["requests"]["cpu"], "100m");
    // What is set aside is never more than the limit, which the cluster would refuse.
    spec.limits.nano_cpus = Some(50_000_001);
    let resources = made(&spec, &setup())["spec"]["containers"][0]["resources"].take();
    assert_eq!(resources["limits"]["cpu"], "51m");
    assert_eq!(resources["requests"]["cpu"], "51m");
}

#[test]
fn what_operators_set_is_in_every_pod() {
    let mut setup = setup();
    setup.config.priority_class = Some("low".to_owned());
    setup.config.pull_secrets = vec!["registry".to_owned()];
    setup.config.node_selector = [("pool".to_owned(), "sandboxes".to_owned())].into();
    setup.config.tolerations = vec![Tolerated {
        key: "for".to_owned(),
        value: Some("sandboxes".to_owned()),
        effect: Some("NoSchedule".to_owned()),
    }];
    let mut spec = spec(NetworkAccess::None);
    spec.runtime = Some("gvisor".to_owned());
    let spec = made(&spec, &setup)["spec"].take();
    assert_eq!(spec["priorityClassName"], "low");
    assert_eq!(spec["imagePullSecrets"][0]["name"], "registry");
    assert_eq!(spec["nodeSelector"]["pool"], "sandboxes");
    assert_eq!(spec["tolerations"][2]["operator"], "Equal");
    assert_eq!(spec["runtimeClassName"], "gvisor");
}
