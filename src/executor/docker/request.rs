//! The engine's requests for what a container and its network are to be. Pure: a snapshot pins the whole request, so
//! that no safety setting can get lost unnoticed.

mod lane;
mod limits;
mod mounts;

use std::collections::HashMap;
use std::path::PathBuf;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    RestartPolicy, RestartPolicyNameEnum,
};

pub(super) use self::lane::create_network_body;
use self::limits::ulimits;
pub(super) use self::limits::update_body;
use self::mounts::mounts;
use crate::executor::host_paths::{HostPaths, UnplacedError};
use crate::executor::spec::{ContainerSpec, DATA_PATH, INIT_PATH, NetworkAccess, Priority};
use crate::secrets::certificates;

/// Our system call filter, for x86-64 and arm64.
pub const SECCOMP_PROFILE: &str = include_str!("request/seccomp.json");

/// Weights of containers against each other; the first is an engine's default.
const RUN_SHARES: i64 = 1024;
const WARM_UP_SHARES: i64 = 128;
const ONE_CPU: i64 = 1_000_000_000;
/// The least there is: what else is on the host reads and writes its disk first. Engines leave it out where the kernel
/// has no weights; Podman fails there, and so does Docker with version 2 of control groups.
const DISK_WEIGHT: u16 = 10;
/// Buffers of a TCP connection without a network: least, usual and most bytes. The older kind of control groups does
/// not count them as memory, and left alone the kernel lets them grow to ten megabytes a connection.
const LOOPBACK_BUFFERS: &str = "4096 32768 65536";
/// The same with a network, where what is under way for a tenth of a second has to fit.
const NETWORK_BUFFERS: &str = "4096 131072 524288";

/// What a container with a hatch needs of its network: PID 1 listens on the ports of hosts, without a privilege. And no
/// connection lingers there when it has ended: that would keep the container from its next run.
const HATCH_SYSCTLS: [(&str, &str); 2] = [
    ("net.ipv4.ip_unprivileged_port_start", "0"),
    ("net.ipv4.tcp_max_tw_buckets", "0"),
];

/// What all containers of a server have in common at its engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSetup {
    /// Where the engine finds what containers see.
    pub paths: HostPaths,
    /// [`SECCOMP_PROFILE`] as a file on the engine's host. Only [`Dialect::Podman`] needs it.
    pub seccomp: PathBuf,
    /// The control group above all containers, as the engine's driver writes it; `None` means the engine's own.
    pub cgroup_parent: Option<String>,
}

/// Which engine a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Takes the system call filter with the request.
    Docker,
    /// The same with `userns-remap`: asked not to map users, since a mapped one could not use files of the server's
    /// user.
    RemappingDocker,
    /// Takes it as a file on the engine's host, and makes more of the root file system writable than was asked for.
    Podman,
}

/// The engine's request for a container. Every setting of `docs/hardening.md` is here and nowhere else.
///
/// # Errors
/// The container is to see what the operator does not provide.
pub fn create_body(
    spec: &ContainerSpec,
    dialect: Dialect,
    setup: &HostSetup,
) -> Result<ContainerCreateBody, UnplacedError> {
    Ok(ContainerCreateBody {
        image: Some(spec.image.clone()),
        entrypoint: Some(vec![INIT_PATH.to_owned()]),
        cmd: Some(spec.command.clone()),
        env: Some(environment(spec)),
        user: Some(format!("{}:{}", spec.user.uid, spec.user.gid)),
        working_dir: Some(DATA_PATH.to_owned()),
        hostname: Some("sandbox".to_owned()),
        labels: Some(spec.labels.clone().into_iter().collect()),
        // The engine closes standard input when we go away: sandbox-init then ends everything.
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        stdin_once: Some(true),
        tty: Some(false),
        // The image's own check would run beside programs and between them, as their user and at their cost.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..Default::default()
        }),
        host_config: Some(host_config(spec, dialect, setup)?),
        ..Default::default()
    })
}

/// The container's own environment, with what is for PID 1.
fn environment(spec: &ContainerSpec) -> Vec<String> {
    let own = [spec.limits.variable()];
    let trust = certificates::VARIABLES.map(|name| format!("{name}={}", certificates::PATH));
    let trust = spec.certificates.iter().flat_map(|_| trust.clone());
    spec.env.iter().cloned().chain(own).chain(trust).collect()
}

/// How much of the processor a container may have, in billionths of a core, and its weight beside others.
fn processor(spec: &ContainerSpec) -> (Option<i64>, i64) {
    let limit = spec.limits.nano_cpus;
    let at_least_one = limit.map(|limit| limit.max(ONE_CPU));
    match spec.priority {
        Priority::Run => (limit, RUN_SHARES),
        Priority::WarmUp => (at_least_one, WARM_UP_SHARES),
        Priority::Load => (at_least_one, RUN_SHARES),
    }
}

fn host_config(
    spec: &ContainerSpec,
    dialect: Dialect,
    setup: &HostSetup,
) -> Result<HostConfig, UnplacedError> {
    let filter = match dialect {
        Dialect::Docker | Dialect::RemappingDocker => SECCOMP_PROFILE.to_owned(),
        Dialect::Podman => setup.seccomp.display().to_string(),
    };
    let (network_mode, dns) = match (&spec.network, &spec.lane) {
        // By its id: under its name, somebody else may have made another.
        (NetworkAccess::Bridge { dns }, Some(lane)) => (
            lane.0.as_str(),
            dns.iter().map(ToString::to_string).collect(),
        ),
        // No resolver can be reached, so looking up a name fails at once instead of after a wait.
        _ => ("none", vec!["127.0.0.1".to_owned()]),
    };
    let (nano_cpus, shares) = processor(spec);
    let memory = i64::try_from(spec.limits.memory).unwrap_or(i64::MAX);
    Ok(HostConfig {
        runtime: spec.runtime.clone(),
        cgroup_parent: setup.cgroup_parent.clone(),
        network_mode: Some(network_mode.to_owned()),
        dns: Some(dns),
        // What the host searches would be asked for, and is no name that anybody has listed.
        dns_search: spec.hatch.name().map(|_| vec![".".to_owned()]),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec![
            "no-new-privileges:true".to_owned(),
            format!("seccomp={filter}"),
        ]),
        readonly_rootfs: Some(true),
        tmpfs: Some(scratch(dialect)),
        sysctls: Some(sysctls(spec)),
        shm_size: Some(16 << 20),
        memory: Some(memory),
        memory_swap: Some(memory),
        nano_cpus,
        cpu_shares: Some(shares),
        pids_limit: Some(i64::from(spec.limits.pids)),
        ulimits: Some(ulimits(spec.limits)),
        blkio_weight: (dialect != Dialect::Podman).then_some(DISK_WEIGHT),
        oom_score_adj: Some(500),
        // What it gives up protects root in a container from being root outside. Programs are never root.
        userns_mode: (dialect == Dialect::RemappingDocker).then(|| "host".to_owned()),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        log_config: Some(no_log()),
        mounts: Some(mounts(spec, &setup.paths)?),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        // The exit state of a container that ended by itself must stay readable.
        auto_remove: Some(false),
        ..Default::default()
    })
}

/// Output goes to the server and nowhere else.
fn no_log() -> HostConfigLogConfig {
    HostConfigLogConfig {
        typ: Some("none".to_owned()),
        config: None,
    }
}

/// Asks for no weight, for an engine whose kernel has none for disks.
pub fn leave_disk_weight_out(body: &mut ContainerCreateBody) {
    if let Some(host) = &mut body.host_config {
        host.blkio_weight = None;
    }
}

fn sysctls(spec: &ContainerSpec) -> HashMap<String, String> {
    let sizes = match &spec.network {
        NetworkAccess::None | NetworkAccess::Listed(_) => LOOPBACK_BUFFERS,
        NetworkAccess::Bridge { .. } => NETWORK_BUFFERS,
    };
    let buffers = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"].map(|name| (name, sizes));
    let hatch = spec.hatch.name().into_iter().flat_map(|_| HATCH_SYSCTLS);
    let all = buffers.into_iter().chain(hatch);
    all.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// What is in memory, and can be written to besides `/data`: `/tmp`.
fn scratch(dialect: Dialect) -> HashMap<String, String> {
    let mut mounts = HashMap::from([(
        "/tmp".to_owned(),
        "rw,exec,nosuid,nodev,size=64m,mode=1777".to_owned(),
    )]);
    if dialect == Dialect::Podman {
        // Podman makes it writable by default.
        mounts.insert(
            "/var/tmp".to_owned(),
            "ro,nosuid,nodev,noexec,size=4k".to_owned(),
        );
    }
    mounts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use super::*;
    use crate::executor::LaneId;
    use crate::executor::host_paths::MountSource;
    use crate::executor::spec::{ContainerLimits, HatchSpec, Place, User};

    pub(super) fn setup() -> HostSetup {
        HostSetup {
            paths: HostPaths {
                root: MountSource::Host(PathBuf::from("/srv/sandboxes")),
                init: PathBuf::from(".bin/init"),
                wheelhouse: Some(PathBuf::from("/srv/wheels")),
                ca_bundle: None,
            },
            seccomp: PathBuf::from("/srv/sandboxes/.bin/seccomp"),
            cgroup_parent: None,
        }
    }

    pub(super) fn spec(network: NetworkAccess) -> ContainerSpec {
        ContainerSpec {
            image: "sha256:abc".to_owned(),
            command: vec!["/bin/sh".to_owned()],
            env: vec!["HOME=/tmp".to_owned()],
            data: Place::Workspace("key".to_owned()),
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
            lane: (network != NetworkAccess::None).then(|| LaneId("lane-id".to_owned())),
            network,
            priority: Priority::Run,
            avoided_nodes: Vec::new(),
            runtime: None,
            labels: BTreeMap::from([("sandbox.server".to_owned(), "s1".to_owned())]),
        }
    }

    pub(super) fn body(spec: &ContainerSpec, dialect: Dialect) -> serde_json::Value {
        body_at(spec, dialect, &setup())
    }

    pub(super) fn body_at(
        spec: &ContainerSpec,
        dialect: Dialect,
        setup: &HostSetup,
    ) -> serde_json::Value {
        serde_json::to_value(create_body(spec, dialect, setup).unwrap()).unwrap()
    }

    #[test]
    fn the_whole_request_is_pinned() {
        let mut body = body(&spec(NetworkAccess::None), Dialect::Docker);
        // The profile has its own test.
        body["HostConfig"]["SecurityOpt"][1] = "seccomp=…".into();
        insta::with_settings!({ sort_maps => true }, {
            insta::assert_json_snapshot!(body);
        });
    }

    #[test]
    fn the_end_of_the_warm_up_says_every_limit_of_memory_again() {
        let limits = spec(NetworkAccess::None).limits;
        let body = serde_json::to_value(update_body(limits)).unwrap();
        insta::assert_json_snapshot!(body, @r#"
        {
          "CpuShares": 1024,
          "Memory": 268435456,
          "MemorySwap": 268435456,
          "NanoCpus": 500000000
        }
        "#);
    }

    #[test]
    fn an_engine_that_maps_users_is_asked_not_to_and_for_nothing_else() {
        let spec = spec(NetworkAccess::None);
        let plain = body(&spec, Dialect::Docker);
        let mut remapping = body(&spec, Dialect::RemappingDocker);
        let settings = remapping["HostConfig"].as_object_mut().unwrap();
        assert_eq!(settings.remove("UsernsMode"), Some("host".into()));
        assert_eq!(remapping, plain);
    }

    #[test]
    fn without_a_limit_on_processor_time_nothing_else_changes() {
        let mut spec = spec(NetworkAccess::None);
        for priority in [Priority::Run, Priority::WarmUp, Priority::Load] {
            spec.priority = priority;
            spec.limits.nano_cpus = Some(500_000_000);
            let mut with = body(&spec, Dialect::Docker);
            spec.limits.nano_cpus = None;
            let settings = with["HostConfig"].as_object_mut().unwrap();
            assert!(settings.remove("NanoCpus").is_some());
            assert_eq!(with, body(&spec, Dialect::Docker));
        }
        let update = serde_json::to_value(update_body(spec.limits)).unwrap();
        assert_eq!(update.get("NanoCpus"), None);
    }

    #[test]
    fn a_network_changes_three_settings_only() {
        let without = body(&spec(NetworkAccess::None), Dialect::Docker);
        let dns = vec![IpAddr::from([192, 0, 2, 1])];
        let mut with = body(&spec(NetworkAccess::Bridge { dns }), Dialect::Docker);
        assert_eq!(with["HostConfig"]["NetworkMode"], "lane-id");
        assert_eq!(with["HostConfig"]["Dns"][0], "192.0.2.1");
        with["HostConfig"]["NetworkMode"] = "none".into();
        with["HostConfig"]["Dns"][0] = "127.0.0.1".into();
        let sizes = &with["HostConfig"]["Sysctls"]["net.ipv4.tcp_rmem"];
        assert_eq!(*sizes, "4096 131072 524288");
        with["HostConfig"]["Sysctls"] = without["HostConfig"]["Sysctls"].clone();
        assert_eq!(with, without);
    }

    #[test]
    fn a_hatch_changes_the_mounts_and_three_settings_only() {
        let without = body(&spec(NetworkAccess::None), Dialect::Docker);
        let mut spec = spec(NetworkAccess::None);
        spec.hatch = HatchSpec::Made("hatch-1f".to_owned());
        let mut with = body(&spec, Dialect::Docker);
        let host = with["HostConfig"].as_object_mut().unwrap();
        assert_eq!(host.remove("DnsSearch"), Some(serde_json::json!(["."])));
        let sysctls = host["Sysctls"].as_object_mut().unwrap();
        for (name, value) in HATCH_SYSCTLS {
            assert_eq!(sysctls.remove(name), Some(value.into()));
        }
        let hatch = host["Mounts"].as_array_mut().unwrap().pop().unwrap();
        insta::assert_json_snapshot!(hatch, @r#"
        {
          "Target": "/.sandbox-hatch",
          "Source": "/srv/sandboxes/.tmp/hatch-1f",
          "Type": "bind",
          "ReadOnly": true,
          "BindOptions": {
            "Propagation": "rprivate"
          }
        }
        "#);
        assert_eq!(with, without);
    }

    #[test]
    fn secrets_change_the_mounts_and_the_environment_only() {
        let without = body(&spec(NetworkAccess::None), Dialect::Docker);
        let mut spec = spec(NetworkAccess::None);
        spec.certificates = Some("certificates-1f".to_owned());
        let mut with = body(&spec, Dialect::Docker);
        let mounts = with["HostConfig"]["Mounts"].as_array_mut().unwrap();
        let certificates = mounts.pop().unwrap();
        insta::assert_json_snapshot!(certificates, @r#"
        {
          "Target": "/.sandbox-ca.pem",
          "Source": "/srv/sandboxes/.bin/certificates-1f",
          "Type": "bind",
          "ReadOnly": true,
          "BindOptions": {
            "Propagation": "rprivate"
          }
        }
        "#);
        let trust = with["Env"].as_array_mut().unwrap().split_off(2);
        insta::assert_json_snapshot!(trust, @r#"
        [
          "SSL_CERT_FILE=/.sandbox-ca.pem",
          "REQUESTS_CA_BUNDLE=/.sandbox-ca.pem",
          "CURL_CA_BUNDLE=/.sandbox-ca.pem",
          "GIT_SSL_CAINFO=/.sandbox-ca.pem",
          "PIP_CERT=/.sandbox-ca.pem",
          "AWS_CA_BUNDLE=/.sandbox-ca.pem",
          "CARGO_HTTP_CAINFO=/.sandbox-ca.pem",
          "NODE_EXTRA_CA_CERTS=/.sandbox-ca.pem",
          "DENO_CERT=/.sandbox-ca.pem"
        ]
        "#);
        assert_eq!(with, without);
    }

    #[test]
    fn warming_up_changes_the_share_of_the_processor_only() {
        let run = body(&spec(NetworkAccess::None), Dialect::Docker);
        let mut spec = spec(NetworkAccess::None);
        spec.priority = Priority::WarmUp;
        let mut warm_up = body(&spec, Dialect::Docker);
        assert_eq!(warm_up["HostConfig"]["NanoCpus"], 1_000_000_000);
        assert_eq!(warm_up["HostConfig"]["CpuShares"], 128);
        warm_up["HostConfig"]["NanoCpus"] = run["HostConfig"]["NanoCpus"].clone();
        warm_up["HostConfig"]["CpuShares"] = run["HostConfig"]["CpuShares"].clone();
        assert_eq!(warm_up, run);
        spec.priority = Priority::Load;
        let load = body(&spec, Dialect::Docker);
        assert_eq!(load["HostConfig"]["NanoCpus"], 1_000_000_000);
        assert_eq!(
            load["HostConfig"]["CpuShares"],
            run["HostConfig"]["CpuShares"]
        );
    }

    #[test]
    fn podman_is_told_two_things_in_another_way_and_one_not_at_all() {
        let docker = body(&spec(NetworkAccess::None), Dialect::Docker);
        let mut podman = body(&spec(NetworkAccess::None), Dialect::Podman);
        let filter = &mut podman["HostConfig"]["SecurityOpt"][1];
        assert_eq!(*filter, "seccomp=/srv/sandboxes/.bin/seccomp");
        *filter = docker["HostConfig"]["SecurityOpt"][1].clone();
        let scratch = podman["HostConfig"]["Tmpfs"].as_object_mut().unwrap();
        let options = scratch.remove("/var/tmp").unwrap();
        assert!(options.as_str().unwrap().starts_with("ro,"));
        assert!(podman["HostConfig"].get("BlkioWeight").is_none());
        podman["HostConfig"]["BlkioWeight"] = docker["HostConfig"]["BlkioWeight"].clone();
        assert_eq!(podman, docker);
    }

    #[test]
    fn where_disks_have_no_weights_nothing_else_changes() {
        let spec = spec(NetworkAccess::None);
        let with = create_body(&spec, Dialect::Docker, &setup()).unwrap();
        let mut without = with.clone();
        leave_disk_weight_out(&mut without);
        let weight = &mut without.host_config.as_mut().unwrap().blkio_weight;
        assert_eq!(weight.replace(DISK_WEIGHT), None);
        assert_eq!(without, with);
    }

    #[test]
    fn the_profile_names_both_architectures() {
        let profile: serde_json::Value = serde_json::from_str(SECCOMP_PROFILE).unwrap();
        let names: Vec<_> = profile["archMap"]
            .as_array()
            .unwrap()
            .iter()
            .map(|arch| &arch["architecture"])
            .collect();
        assert_eq!(names, ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]);
    }
}
