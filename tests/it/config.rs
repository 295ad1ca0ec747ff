//! The configuration as operators see it: what is shown of it, and messages about mistakes; and what documents say of it.

mod documents;

use mcp_code_sandbox::config::Config;
use mcp_code_sandbox::config::variables::VARIABLES;

use crate::support::{SECRET, TOKEN};

#[test]
fn all_mistakes_are_told_at_once_and_no_secret_is_shown() {
    let lookup = |name: &str| {
        let value = match name {
            "MCP_API_TOKEN" => "hunter2",
            "FILE_SECRET" => "change-me-change-me-change-me-change-me",
            "RUN_TIMEOUT" => "soon",
            "RUN_MEMORY" => "1k",
            "MCP_HTTP_ADDR" => "nowhere",
            "PUBLIC_BASE_URL" => "sandbox.example",
            "MAX_CONCURRENT_RUNS" => "0",
            "RATE_LIMIT" => "fast",
            "CONVERSATION_TTL" => "1m",
            "STORAGE_LIMIT" => "much",
            "ALLOW_NETWORK" => "perhaps",
            "SANDBOX_RUNTIME" => "runsc; rm",
            "SANDBOX_CGROUP_PARENT" => "all sandboxes",
            "SANDBOX_UIDS" => "1000-1999",
            "ALLOW_WEAKER_SANDBOX" => "syscalls,everything",
            _ => return None,
        };
        Some(value.to_owned())
    };
    insta::assert_snapshot!(Config::from_lookup(&lookup).unwrap_err(), @"
    MCP_HTTP_ADDR=nowhere is not valid: it must be an address such as `127.0.0.1:8080`, or `:8080` for all IPv4 interfaces
    PUBLIC_BASE_URL=sandbox.example is not valid: it must be an address such as `https://sandbox.example.org`, without query
    MCP_API_TOKEN is not valid (its value is not shown): it must be at least 16 random characters; make one with `openssl rand -hex 32`
    RATE_LIMIT=fast is not valid: it must be 0 for no limit, or a number and a time, such as `10/s`, `300/m` or `5000/h`
    FILE_SECRET is not valid (its value is not shown): it must be at least 32 random characters without `change`, which stands in values that nobody has replaced yet; make one with `openssl rand -hex 32`
    STORAGE_LIMIT=much is not valid: it must be a size of at least 1m, such as `512k`, `256m` or `1g`
    SANDBOX_RUNTIME=runsc; rm is not valid: it must be a name of letters, digits, `.`, `_`, `-` and `/`, such as `runsc`
    SANDBOX_CGROUP_PARENT=all sandboxes is not valid: it must be a name of letters, digits, `.`, `_`, `-` and `/`, such as `sandboxes.slice`
    SANDBOX_UIDS=1000-1999 is not valid: it must be the first and the last of at least 1000 user ids from 1001 to 2147483647 that nobody on the host has, such as `70000-99999`, and not 65534 or 65535, which stand for no user
    ALLOW_WEAKER_SANDBOX=syscalls,everything is not valid: it must be names of controls separated by commas, out of runtime, workspace, identity, syscalls, writable-paths, kernel-levers, secrets, pid-1, limits, network-off, network-on, egress, fork-bomb, memory, socket-memory, processor, file-size, disk, inodes, output-flood, timeout, background, links, residue, conversations, tenants, neighbour, shared-tables
    ALLOW_NETWORK=perhaps is not valid: it must be 1 or 0
    RUN_TIMEOUT=soon is not valid: it must be a duration greater than zero, such as `30s` or `5m`, at most 100 years
    RUN_MEMORY=1k is not valid: it must be a size of at least 16m, such as `512k`, `256m` or `1g`
    MAX_CONCURRENT_RUNS=0 is not valid: it must be a whole number of at least 1
    CONVERSATION_TTL=1m is not valid: it must be 0 or a duration longer than SANDBOX_IDLE_TTL, which is 5m, such as `7d`
    ");
}

#[test]
fn values_that_could_never_work_are_refused() {
    let refused = |name: &'static str, value: &'static str| {
        let lookup = |asked: &str| match asked {
            asked if asked == name => Some(value.to_owned()),
            "MCP_API_TOKEN" => Some(TOKEN.to_owned()),
            "FILE_SECRET" => Some(SECRET.to_owned()),
            _ => None,
        };
        Config::from_lookup(&lookup).unwrap_err().to_string()
    };
    let seen = [
        refused("ALLOWED_HOSTS", "localhost,https://box.example"),
        refused("ALLOWED_HOSTS", "a b"),
        refused("ALLOWED_ORIGINS", "box.example"),
        refused("PUBLIC_BASE_URL", "https://box.example:99999"),
        refused("ALLOWED_PACKAGES", "requests urllib3"),
        refused("BLOCKED_PACKAGES", "left-pad,requests==2.*"),
        refused("DOCKER_HOST", "/run/podman/podman.sock"),
        refused("DOCKER_HOST", "ssh://me@box"),
        refused("RUN_DNS", "9.9.9.9,127.0.0.53"),
        refused("RUN_DNS", "2620:fe::fe"),
        refused("RUN_SUBNETS", "198.19.0.0/25"),
        refused("RUN_SUBNETS", "198.19.0.1/16"),
        refused("RUST_LOG", "a=b=c"),
        refused("DIALECTS", "dify, piston"),
        refused("MCP_API_TOKEN", "0123456789abcd"),
        refused("MCP_API_TOKEN", "n8n-secret-7f3a9c2be41d"),
        refused("MCP_API_TOKEN", "abcabcabcabcabcabc"),
    ];
    insta::assert_snapshot!(seen.join("\n"), @"
    ALLOWED_HOSTS=localhost,https://box.example is not valid: it must be names of hosts separated by commas, each with or without a port, such as `box.example,10.0.0.7:8080`, or `*` for any
    ALLOWED_HOSTS=a b is not valid: it must be names of hosts separated by commas, each with or without a port, such as `box.example,10.0.0.7:8080`, or `*` for any
    ALLOWED_ORIGINS=box.example is not valid: it must be origins separated by commas, such as `https://box.example` or `http://box.example:8080`, each with a scheme and without a path, `:*` for any port, or `*` for any
    PUBLIC_BASE_URL=https://box.example:99999 is not valid: it must be an address such as `https://sandbox.example.org`, without query
    ALLOWED_PACKAGES=requests urllib3 is not valid: it must be names of packages without versions, separated by commas, such as `requests,@types/node`
    BLOCKED_PACKAGES=left-pad,requests==2.* is not valid: it must be names of packages without versions, separated by commas, such as `requests,@types/node`
    DOCKER_HOST=/run/podman/podman.sock is not valid: it must be an address such as `unix:///run/podman/podman.sock` or `tcp://127.0.0.1:2375`
    DOCKER_HOST=ssh://me@box is not valid: it must be an address such as `unix:///run/podman/podman.sock` or `tcp://127.0.0.1:2375`
    RUN_DNS=9.9.9.9,127.0.0.53 is not valid: it must be IPv4 addresses separated by commas, none of them of the loopback (127.…), which each container has for itself
    RUN_DNS=2620:fe::fe is not valid: it must be IPv4 addresses separated by commas, none of them of the loopback (127.…), which each container has for itself
    RUN_SUBNETS=198.19.0.0/25 is not valid: it must be a range of IPv4 addresses with a prefix from /8 to /24, such as `198.19.0.0/16`
    RUN_SUBNETS=198.19.0.1/16 is not valid: it must be a range of IPv4 addresses with a prefix from /8 to /24, such as `198.19.0.0/16`
    RUST_LOG=a=b=c is not valid: it must be a level such as `info`, or a filter such as `info,mcp_code_sandbox=debug`
    DIALECTS=dify, piston is not valid: it must be names separated by commas, of those that there are: dify, e2b, jupyter, librechat, python_tool
    MCP_API_TOKEN is not valid (its value is not shown): it must be at least 16 random characters; make one with `openssl rand -hex 32`
    MCP_API_TOKEN is not valid (its value is not shown): it must be at least 16 random characters without `secret`, which stands in values that nobody has replaced yet; make one with `openssl rand -hex 32`
    MCP_API_TOKEN is not valid (its value is not shown): it must be at least 16 random characters, 8 different ones or more; make one with `openssl rand -hex 32`
    ");
}

#[test]
fn tokens_that_no_client_can_send_are_refused() {
    let lookup = |name: &str| {
        let value = match name {
            "MCP_API_TOKEN" => "größer als 16 Zeichen",
            "METRICS_TOKEN" => "0123456789abcdef\u{7}0123",
            // It is sent in no header.
            "FILE_SECRET" => "Käse und Wein, ein Schiff, zwölf Boxkämpfer",
            _ => return None,
        };
        Some(value.to_owned())
    };
    insta::assert_snapshot!(Config::from_lookup(&lookup).unwrap_err(), @"
    MCP_API_TOKEN is not valid (its value is not shown): it must be letters, digits and signs of ASCII, since clients send it in a header; make one with `openssl rand -hex 32`
    METRICS_TOKEN is not valid (its value is not shown): it must be letters, digits and signs of ASCII, since clients send it in a header; make one with `openssl rand -hex 32`
    ");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one for each variable")]
fn check_config_hides_secrets() {
    let root = std::path::Path::new("/srv/sandboxes");
    let shown = crate::support::config(
        root,
        &[
            ("MAX_CONCURRENT_RUNS", "4"),
            ("MAX_WARM_SANDBOXES", "94"),
            ("ALLOW_WEAKER_SANDBOX", "network-off, limits"),
        ],
    )
    .to_string();
    for variable in VARIABLES.iter() {
        assert!(
            shown.contains(&format!("{}=", variable.name)),
            "{} is not shown",
            variable.name
        );
    }
    insta::assert_snapshot!(shown, @"
    MCP_HTTP_ADDR=127.0.0.1:8080
    PUBLIC_BASE_URL=http://localhost:8080
    MCP_API_TOKEN=(hidden)
    ACCESS_FILE=
    OAUTH_BUILTIN=false
    OAUTH_ISSUER=
    OAUTH_AUDIENCE=
    OAUTH_SCOPES=openid
    OAUTH_REQUIRED_SCOPE=
    OAUTH_TENANT=subject
    OAUTH_ALLOW=
    OAUTH_PAGE_CLIENT=
    OAUTH_INTROSPECTION_CLIENT=
    OAUTH_INTROSPECTION_SECRET=
    OAUTH_JWKS_FILE=
    OAUTH_CA_BUNDLE=
    CF_ACCESS_TEAM=
    CF_ACCESS_AUD=
    ALLOWED_HOSTS=127.0.0.1,::1,localhost
    ALLOWED_ORIGINS=http://localhost:*,http://127.0.0.1:*,http://[::1]:*,http://localhost:8080
    METRICS_TOKEN=
    ADMIN_TOKEN=
    HEALTH_COUNTS=false
    RATE_LIMIT=
    SHUTDOWN_GRACE=30s
    SESSION_IDLE_TTL=2h
    DIALECTS=
    MCP_TOOLSET=default
    RESOURCE_LINKS=auto
    STRUCTURED_CONTENT=auto
    PICTURES=auto
    SANDBOX_ROOT=/srv/sandboxes
    SANDBOX_HOST_PATH=/srv/sandboxes
    SANDBOX_VOLUME=
    FILE_SECRET=(hidden)
    FILE_URL_TTL=0
    CONVERSATION_TTL=7days
    STORAGE_LIMIT=
    WORKSPACE_QUOTA=1g
    DISK_FREE_FLOOR=1m
    MAX_UPLOAD_BYTES=50m
    EXECUTOR=docker
    DOCKER_HOST=
    SANDBOX_RUNTIME=
    SANDBOX_CGROUP_PARENT=
    SANDBOX_UIDS=
    ALLOW_WEAKER_SANDBOX=limits,network-off
    ALLOW_NETWORK=0
    FIREWALL_REPORT=/nowhere
    RUN_DNS=
    RUN_SUBNETS=198.19.0.0/16
    NETWORK=open
    NETWORK_ALLOW=
    NETWORK_ASK=0
    NETWORK_PRIVATE=
    NETWORK_HOSTS=
    SECRETS_FILE=
    NETWORK_CA_BUNDLE=
    NETWORK_BYTES=1g
    NETWORK_CONNECTIONS=64
    KUBECONFIG=
    KUBE_NAMESPACE=
    KUBE_VOLUME_CLAIM=
    KUBE_VOLUME_PATH=
    KUBE_SECCOMP=
    KUBE_CPU_REQUEST=
    KUBE_NODE_SELECTOR=
    KUBE_TOLERATIONS=
    KUBE_PRIORITY_CLASS=
    KUBE_PULL_SECRETS=
    KUBE_LOG_LIMIT=
    POD_NAME=
    POD_UID=
    POD_IP=
    LEADER_LEASE=
    LEASE_DURATION=
    RUN_TIMEOUT=30s
    RUN_TIMEOUT_MAX=5m
    RUN_CPUS=0.5
    RUN_MEMORY=256m
    RUN_PIDS=128
    RUN_OUTPUT_LIMIT=1m
    RUN_FILE_SIZE=256m
    MAX_CODE_BYTES=1m
    CALL_BUDGET=45s
    OUTPUT_FOR_MODEL=30000
    MAX_CONCURRENT_RUNS=4
    MAX_RUNS_PER_CONVERSATION=2
    MAX_QUEUED_RUNS=64
    MAX_QUEUE_WAIT=30s
    POOL_SIZE=0
    SANDBOX_IDLE_TTL=5m
    SANDBOX_LOADED_TTL=5m
    MAX_WARM_SANDBOXES=94
    SANDBOX_REUSE=never
    MAX_KERNELS=10
    KERNEL_TIMEOUT=5m
    ALLOWED_PACKAGES=
    BLOCKED_PACKAGES=
    ALLOW_SOURCE_BUILDS=0
    PACKAGE_WHEELHOUSE=
    PACKAGE_CA_BUNDLE=
    PACKAGE_HOSTS=
    PACKAGE_PROXY=
    PIP_INDEX_URL=
    PIP_EXTRA_INDEX_URL=
    PIP_TRUSTED_HOST=
    NPM_CONFIG_REGISTRY=
    PACKAGE_TIMEOUT=2m
    PACKAGE_SIZE_LIMIT=200m
    PACKAGE_COUNT_LIMIT=100
    PACKAGE_CACHE_SIZE=1g
    PACKAGE_RATE_LIMIT=30/h
    AUDIT_LOG=
    AUDIT_REQUIRED=0
    LOG_FORMAT=text
    LOG_LEVEL=
    RUST_LOG=info,rmcp=warn,rmcp::service=off
    ");
}

#[test]
fn what_does_not_go_with_a_cluster_is_refused() {
    let read = |settings: &[(&str, &str)]| {
        let lookup = |name: &str| {
            let required = [
                ("MCP_API_TOKEN", TOKEN),
                ("FILE_SECRET", SECRET),
                ("EXECUTOR", "kubernetes"),
            ];
            let mut all = settings.iter().chain(&required);
            let found = all.find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Config::from_lookup(&lookup)
    };
    let refused = read(&[
        ("DOCKER_HOST", "unix:///run/docker.sock"),
        ("SANDBOX_HOST_PATH", "/srv"),
        ("FIREWALL_REPORT", "/report"),
        ("ALLOW_NETWORK", "1"),
        ("KUBE_VOLUME_PATH", "a/../../b"),
        ("KUBE_SECCOMP", "../mine.json"),
        ("KUBE_NODE_SELECTOR", "pool"),
        ("KUBE_TOLERATIONS", "for=sandboxes:Never"),
    ]);
    insta::assert_snapshot!(refused.unwrap_err(), @"
    DOCKER_HOST=unix:///run/docker.sock is not valid: it must be left out with EXECUTOR=kubernetes: the cluster is that of KUBECONFIG
    SANDBOX_HOST_PATH=/srv is not valid: it must be left out with EXECUTOR=kubernetes: sandboxes mount the claim KUBE_VOLUME_CLAIM, at KUBE_VOLUME_PATH
    FIREWALL_REPORT=/report is not valid: it must be left out with EXECUTOR=kubernetes: NetworkPolicies keep sandboxes apart
    MAX_CONCURRENT_RUNS is not set: it must be how many runs the cluster has room for: it is not worked out with EXECUTOR=kubernetes
    KUBE_VOLUME_CLAIM is not set: it must be the name of a PersistentVolumeClaim in the namespace of the sandboxes, such as `sandboxes`, whose files the server has at SANDBOX_ROOT
    KUBE_VOLUME_PATH=a/../../b is not valid: it must be a path in the claim without `..`, such as `mcp/sandboxes`
    KUBE_SECCOMP=../mine.json is not valid: it must be `RuntimeDefault`, or a file below the directory of profiles on every node, such as `sandbox.json`
    KUBE_NODE_SELECTOR=pool is not valid: it must be labels of nodes separated by commas, such as `pool=sandboxes,disk=ssd`
    KUBE_TOLERATIONS=for=sandboxes:Never is not valid: it must be taints as `kubectl taint` writes them, separated by commas, such as `for=sandboxes:NoSchedule`
    RUN_DNS is not set: it must be addresses of resolvers with EXECUTOR=kubernetes and ALLOW_NETWORK=1: the cluster's own would tell programs the names of its services
    ");
    let config = read(&[
        ("MAX_CONCURRENT_RUNS", "10"),
        ("KUBE_VOLUME_CLAIM", "sandboxes"),
        ("KUBE_VOLUME_PATH", "/mcp/"),
        ("KUBE_TOLERATIONS", "for=sandboxes:NoSchedule"),
        ("POD_NAME", "server-0"),
        ("POD_UID", "0a1b"),
    ]);
    let shown = config.unwrap().to_string();
    let lines = shown.lines().filter(|line| line.starts_with("KUBE"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    KUBECONFIG=
    KUBE_NAMESPACE=
    KUBE_VOLUME_CLAIM=sandboxes
    KUBE_VOLUME_PATH=mcp
    KUBE_SECCOMP=RuntimeDefault
    KUBE_CPU_REQUEST=0.1
    KUBE_NODE_SELECTOR=
    KUBE_TOLERATIONS=for=sandboxes:NoSchedule
    KUBE_PRIORITY_CLASS=
    KUBE_PULL_SECRETS=
    KUBE_LOG_LIMIT=64m
    ");
}

#[test]
fn a_log_that_cannot_be_kept_is_told() {
    let told = |settings: &[(&str, &str)]| {
        let lookup = |name: &str| {
            let required = [("MCP_API_TOKEN", TOKEN), ("FILE_SECRET", SECRET)];
            let mut all = settings.iter().chain(&required);
            let found = all.find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match Config::from_lookup(&lookup) {
            Ok(config) => config.log.filter,
            Err(errors) => errors.to_string(),
        }
    };
    let all = [
        told(&[("LOG_LEVEL", "blah")]),
        told(&[("LOG_LEVEL", "20")]),
        told(&[("RUST_LOG", "info,=")]),
        told(&[("RUST_LOG", "mcp_code_sandbox=loud")]),
        // It does not count.
        told(&[("LOG_LEVEL", "blah"), ("RUST_LOG", "debug")]),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    LOG_LEVEL=blah is not valid: it must be `trace`, `debug`, `info` or `notice`, `warn` or `warning`, `error`, `critical` or `fatal`, or `off`
    LOG_LEVEL=20 is not valid: it must be `trace`, `debug`, `info` or `notice`, `warn` or `warning`, `error`, `critical` or `fatal`, or `off`
    RUST_LOG=info,= is not valid: it must be a level such as `info`, or a filter such as `info,mcp_code_sandbox=debug`
    RUST_LOG=mcp_code_sandbox=loud is not valid: it must be a level such as `info`, or a filter such as `info,mcp_code_sandbox=debug`
    info,mcp_code_sandbox=debug,rmcp::service=off
    ");
}

#[test]
fn conversations_are_spared_for_what_they_can_have() {
    let idle = |settings: &[(&str, &str)]| {
        let common: &[(&str, &str)] = &[
            ("MCP_API_TOKEN", TOKEN),
            ("FILE_SECRET", SECRET),
            ("SANDBOX_IDLE_TTL", "10m"),
            ("KERNEL_TIMEOUT", "20m"),
        ];
        let all = [settings, common].concat();
        let lookup = |name: &str| {
            let found = all.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Config::from_lookup(&lookup)
            .unwrap()
            .longest_idle()
            .as_secs()
            / 60
    };
    let (no_kernels, no_reuse) = (("MAX_KERNELS", "0"), ("SANDBOX_REUSE", "never"));
    let no_pool = ("POOL_SIZE", "0");
    assert_eq!(idle(&[]), 20);
    assert_eq!(idle(&[no_kernels]), 10);
    assert_eq!(idle(&[no_kernels, no_reuse]), 10);
    assert_eq!(idle(&[no_kernels, no_reuse, no_pool]), 0);
    assert_eq!(idle(&[no_kernels, ("MAX_WARM_SANDBOXES", "0")]), 0);
    assert_eq!(
        idle(&[("MAX_WARM_SANDBOXES", "0"), ("KERNEL_TIMEOUT", "1m")]),
        1
    );
}
