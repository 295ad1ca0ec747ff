//! The one table of environment variables: name, default, meaning.

use super::variable::{Variable, variable};

/// Every variable that the server reads, in the order in which the documents list them.
pub const VARIABLES: &[Variable] = &[
    variable(
        "MCP_HTTP_ADDR",
        "127.0.0.1:8080",
        "address to listen on; `:8080` means every IPv4 interface, `[::]:8080` IPv6",
    ),
    variable(
        "PUBLIC_BASE_URL",
        "",
        "base URL of links to files; default: http://localhost and the port, or the one address that the server listens on",
    ),
    variable(
        "MCP_API_TOKEN",
        "",
        "bearer token of /mcp and the REST interface, at least 16 ASCII characters; required without ACCESS_FILE, OAUTH_ISSUER and CF_ACCESS_TEAM",
    ),
    variable(
        "ACCESS_FILE",
        "",
        "file of further tokens, each for a tenant whose conversations are its own; made and changed by `mcp-code-sandbox token`, and read again when it changes",
    ),
    variable(
        "OAUTH_BUILTIN",
        "false",
        "1: people who have a token can log in with it from applications that take none, such as claude.ai; needs a PUBLIC_BASE_URL with https; see docs/oauth.md",
    ),
    variable(
        "OAUTH_ISSUER",
        "",
        "comma-separated addresses of authorization servers whose access tokens are taken, exactly as they stand in `iss`; see docs/oauth.md",
    ),
    variable(
        "OAUTH_AUDIENCE",
        "",
        "comma-separated values of `aud` that tokens may have besides the addresses of this server, such as the id of a client",
    ),
    variable(
        "OAUTH_SCOPES",
        "openid",
        "scopes that clients are told to ask for, separated by spaces; `none`: no word about scopes",
    ),
    variable(
        "OAUTH_REQUIRED_SCOPE",
        "",
        "scope that every access token must have; default: none",
    ),
    variable(
        "OAUTH_TENANT",
        "subject",
        "`subject`: each caller of OAuth is a tenant; `claim:` and a name: the tenant is the value of that claim; `default`: all are the tenant of MCP_API_TOKEN",
    ),
    variable(
        "OAUTH_ALLOW",
        "",
        "comma-separated callers that may enter: a `sub`, `email:anna@example.org` if the issuer has verified it, or `group:team` of the claim `groups`; default: all to whom the issuer gives a token",
    ),
    variable(
        "OAUTH_INTROSPECTION_CLIENT",
        "",
        "id of the client as which the issuer is asked about tokens that are no JWT; default: such tokens are refused",
    ),
    variable("OAUTH_INTROSPECTION_SECRET", "", "secret of that client"),
    variable(
        "OAUTH_JWKS_FILE",
        "",
        "file with the public keys of the issuers (JWKS), in place of those that they publish",
    ),
    variable(
        "OAUTH_CA_BUNDLE",
        "",
        "file of certificates (PEM) that are trusted for issuers besides those of the system",
    ),
    variable(
        "CF_ACCESS_TEAM",
        "",
        "team of Cloudflare Access whose assertions say who calls, such as `myteam`; needs CF_ACCESS_AUD; see docs/oauth.md",
    ),
    variable(
        "CF_ACCESS_AUD",
        "",
        "tag of the application of Cloudflare Access (Application Audience) that is in front of this server",
    ),
    variable(
        "ALLOWED_HOSTS",
        "",
        "comma-separated host names that requests may carry, besides localhost, the one address that the server listens on and the host of PUBLIC_BASE_URL; `*` for any",
    ),
    variable(
        "ALLOWED_ORIGINS",
        "",
        "comma-separated origins whose pages may call, besides this server's own, such as `https://box.example`, with `:*` for any port; default: those of this machine; `*` for any",
    ),
    variable(
        "METRICS_TOKEN",
        "",
        "bearer token of /metrics, at least 16 ASCII characters; default: no token, and only this machine may read the metrics",
    ),
    variable(
        "HEALTH_COUNTS",
        "false",
        "whether /api/v1/health shows the number of sessions and the uptime to requests without the token",
    ),
    variable(
        "RATE_LIMIT",
        "",
        "requests allowed per token, such as `10/s`, `300/m` or `5000/h`; more get 429; default: no limit",
    ),
    variable(
        "SHUTDOWN_GRACE",
        "30s",
        "how long running programs may continue after SIGTERM",
    ),
    variable(
        "SESSION_IDLE_TTL",
        "2h",
        "how long an MCP session may go unused before it ends; one with a run or an open event stream is in use",
    ),
    variable(
        "MCP_TOOLSET",
        "default",
        "tools that MCP clients see: `default`, or those of other servers, `artifacts` or `python`; see docs/moving.md",
    ),
    variable(
        "RESOURCE_LINKS",
        "auto",
        "`auto`: answers link new files as content of the type `resource_link` for all clients but those known to refuse it; `always` or `never`: for all or none; see docs/clients.md",
    ),
    variable(
        "STRUCTURED_CONTENT",
        "auto",
        "`auto`: answers have `structuredContent` for all clients but those known to hide the rest of the answer then; `always` or `never`: for all or none; see docs/clients.md",
    ),
    variable(
        "PICTURES",
        "auto",
        "`auto`: answers show pictures to all clients but those known to hand them to their models as text; `always` or `never`: to all or none; see docs/clients.md",
    ),
    variable(
        "FILE_SECRET",
        "",
        "secret behind directory names and signed links, at least 32 characters; required",
    ),
    variable(
        "SANDBOX_ROOT",
        "./sandboxes",
        "directory of all conversations' files",
    ),
    variable(
        "SANDBOX_HOST_PATH",
        "",
        "the same directory as the container engine sees it; default: SANDBOX_ROOT",
    ),
    variable(
        "SANDBOX_VOLUME",
        "",
        "the engine's volume that is mounted at SANDBOX_ROOT, in place of SANDBOX_HOST_PATH, where the server is a container and the engine's host has no such directory; needs Docker 26; see docs/operating.md",
    ),
    variable(
        "FILE_URL_TTL",
        "0",
        "how long links to files are valid, such as `24h`; 0: unsigned links that do not expire",
    ),
    variable(
        "CONVERSATION_TTL",
        "7d",
        "how long a conversation may go unused before its files are deleted; 0: never delete",
    ),
    variable(
        "STORAGE_LIMIT",
        "",
        "bytes that all conversations together may keep; beyond it the least recently used are deleted; default: no limit",
    ),
    variable(
        "WORKSPACE_QUOTA",
        "1g",
        "bytes that one conversation may keep",
    ),
    variable(
        "DISK_FREE_FLOOR",
        "1g",
        "bytes that must stay free on the file system of SANDBOX_ROOT",
    ),
    variable("MAX_UPLOAD_BYTES", "50m", "largest upload, decoded"),
    variable(
        "EXECUTOR",
        "docker",
        "what runs sandboxes: `docker`, which is Docker or Podman, or `kubernetes`; see docs/kubernetes.md",
    ),
    variable(
        "DOCKER_HOST",
        "",
        "container engine, such as unix:///run/podman/podman.sock; default: Docker's usual socket",
    ),
    variable(
        "SANDBOX_RUNTIME",
        "",
        "the engine's runtime for sandboxes, such as `runsc`; default: the engine's own",
    ),
    variable(
        "SANDBOX_CGROUP_PARENT",
        "",
        "control group above all sandboxes, such as `/` or `sandboxes.slice`; default: the engine's own",
    ),
    variable(
        "SANDBOX_UIDS",
        "",
        "user ids of which each conversation has one for itself, such as `70000-99999`, recommended where people share the server; needs a server that is root; default: one for all, 1000 where the server is root",
    ),
    variable(
        "ALLOW_WEAKER_SANDBOX",
        "",
        "controls that may fail the check at the start without runs being refused, such as `syscalls,limits`",
    ),
    variable(
        "ALLOW_NETWORK",
        "0",
        "1 allows `network: true` without proof that the host is out of reach",
    ),
    variable(
        "FIREWALL_REPORT",
        "",
        "file in which `deploy/firewall` reports that the rules are in place; default: the server checks them itself",
    ),
    variable(
        "RUN_DNS",
        "",
        "comma-separated resolvers for runs with a network; default: those of the host",
    ),
    variable(
        "RUN_SUBNETS",
        "198.19.0.0/16",
        "addresses that the host does not use otherwise; each run with a network gets four of them for a network of its own",
    ),
    variable(
        "KUBECONFIG",
        "",
        "file that says where the cluster is and who the server is there; default: the service account of the server's pod",
    ),
    variable(
        "KUBE_NAMESPACE",
        "",
        "namespace of the sandboxes; default: the server's own",
    ),
    variable(
        "KUBE_VOLUME_CLAIM",
        "",
        "claim whose files the server has at SANDBOX_ROOT and sandboxes mount parts of, so ReadWriteMany; required with EXECUTOR=kubernetes",
    ),
    variable(
        "KUBE_VOLUME_PATH",
        "",
        "directory of that claim that is SANDBOX_ROOT; default: all of it",
    ),
    variable(
        "KUBE_SECCOMP",
        "RuntimeDefault",
        "filter of system calls that nodes apply: `RuntimeDefault`, or a profile that is on every node, such as `sandbox.json`",
    ),
    variable(
        "KUBE_CPU_REQUEST",
        "0.1",
        "processor cores of a node that are set aside for each sandbox; 0: none",
    ),
    variable(
        "KUBE_NODE_SELECTOR",
        "",
        "comma-separated labels that nodes of sandboxes must have, such as `pool=sandboxes`",
    ),
    variable(
        "KUBE_TOLERATIONS",
        "",
        "comma-separated taints that nodes of sandboxes may have, such as `for=sandboxes:NoSchedule`",
    ),
    variable("KUBE_PRIORITY_CLASS", "", "priority class of sandboxes"),
    variable(
        "KUBE_PULL_SECRETS",
        "",
        "comma-separated secrets with which nodes pull runner images",
    ),
    variable(
        "KUBE_LOG_LIMIT",
        "64m",
        "bytes of a node's disk that the output of one sandbox may take",
    ),
    variable(
        "POD_NAME",
        "",
        "name of the server's pod, given by its manifest: with this pod, its sandboxes go",
    ),
    variable(
        "POD_UID",
        "",
        "id of the server's pod, given by its manifest",
    ),
    variable(
        "POD_IP",
        "",
        "address of the server's pod, given by its manifest: servers that stand by reach it there",
    ),
    variable(
        "LEADER_LEASE",
        "",
        "Lease by which one of several servers leads while the others stand by, such as `mcp-code-sandbox`; default: there is one server only",
    ),
    variable(
        "LEASE_DURATION",
        "10s",
        "how long servers that stand by wait for a leader that is not heard of",
    ),
    variable(
        "RUN_TIMEOUT",
        "30s",
        "time limit of a run that does not ask for one",
    ),
    variable(
        "RUN_TIMEOUT_MAX",
        "300s",
        "longest time limit that a run may ask for",
    ),
    variable(
        "RUN_CPUS",
        "0.5",
        "processor cores of one run, at most those of the engine; 0: no limit",
    ),
    variable(
        "RUN_MEMORY",
        "256m",
        "memory of one run, including its /tmp",
    ),
    variable("RUN_PIDS", "128", "processes and threads of one run"),
    variable(
        "RUN_OUTPUT_LIMIT",
        "1m",
        "bytes kept of standard output, and as many of standard error",
    ),
    variable(
        "RUN_FILE_SIZE",
        "256m",
        "largest single file that a run may write",
    ),
    variable("MAX_CODE_BYTES", "1m", "largest program"),
    variable(
        "CALL_BUDGET",
        "45s",
        "how long `run_code` waits before it answers `running`, plus 5 s for runs whose time limit is no longer than this; also the longest wait of one `get_run`",
    ),
    variable(
        "OUTPUT_FOR_MODEL",
        "30000",
        "characters of output in one answer; `get_run` reads the rest",
    ),
    variable(
        "MAX_CONCURRENT_RUNS",
        "",
        "runs at the same time; default: four per core, as far as they fit into three quarters of the memory",
    ),
    variable(
        "MAX_RUNS_PER_CONVERSATION",
        "",
        "runs of one conversation at the same time; default: half of MAX_CONCURRENT_RUNS",
    ),
    variable(
        "MAX_QUEUED_RUNS",
        "64",
        "runs that may wait for a place, at most half of them from one conversation; more are answered `busy`",
    ),
    variable("MAX_QUEUE_WAIT", "30s", "longest wait for a place"),
    variable(
        "POOL_SIZE",
        "",
        "warm sandboxes per runner that wait for a new conversation, or for some languages only, such as `python=2,shell=1`; default: 2, and of Python as many light ones as fit into a 24th of the memory",
    ),
    variable(
        "SANDBOX_IDLE_TTL",
        "5m",
        "how long a conversation without runs keeps its warm sandbox",
    ),
    variable(
        "SANDBOX_LOADED_TTL",
        "5m",
        "how long that sandbox keeps large libraries that none of its programs has named; the one that names them next waits for them",
    ),
    variable(
        "MAX_WARM_SANDBOXES",
        "",
        "warm sandboxes in total; default: as many light ones as fit into a quarter of the memory, from 4 to 256. Half of the memory may be taken by large libraries while nothing runs, until it is short",
    ),
    variable(
        "SANDBOX_REUSE",
        "conversation",
        "`conversation`: a conversation's next run gets its sandbox again, cleaned; `never`: every run that is not stateful gets a new one",
    ),
    variable(
        "MAX_KERNELS",
        "10",
        "kernels of stateful runs in total, each a sandbox of its own; the least recently used makes room; 0: none",
    ),
    variable(
        "KERNEL_TIMEOUT",
        "300s",
        "how long a kernel without runs is kept, and its variables with it",
    ),
    variable(
        "ALLOWED_PACKAGES",
        "",
        "comma-separated names of packages that install_packages may be asked for; default: all",
    ),
    variable(
        "BLOCKED_PACKAGES",
        "",
        "comma-separated names of packages that may not be installed, neither on request nor as a dependency",
    ),
    variable(
        "ALLOW_SOURCE_BUILDS",
        "0",
        "1 builds Python packages that have no wheel, which runs their code while it can reach the network",
    ),
    variable(
        "PACKAGE_WHEELHOUSE",
        "",
        "directory of wheels and npm .tgz files, as the engine's host sees it; installing from it needs no network",
    ),
    variable(
        "PACKAGE_CA_BUNDLE",
        "",
        "file of certificates that package clients trust, as the engine's host sees it; default: the runner's own",
    ),
    variable(
        "PACKAGE_PROXY",
        "",
        "HTTP proxy that packages are fetched through, such as `http://proxy.example.org:3128`; default: none",
    ),
    variable(
        "PIP_INDEX_URL",
        "",
        "index of Python packages; default: pip's",
    ),
    variable(
        "PIP_EXTRA_INDEX_URL",
        "",
        "further indexes of Python packages, separated by spaces",
    ),
    variable(
        "PIP_TRUSTED_HOST",
        "",
        "hosts of Python packages that need no valid certificate, separated by spaces",
    ),
    variable(
        "NPM_CONFIG_REGISTRY",
        "",
        "registry of npm packages; default: Bun's",
    ),
    variable("PACKAGE_TIMEOUT", "120s", "longest time of one install"),
    variable(
        "PACKAGE_SIZE_LIMIT",
        "200m",
        "bytes of the packages of one install: wheels as downloaded, npm packages unpacked",
    ),
    variable(
        "PACKAGE_COUNT_LIMIT",
        "100",
        "packages that one conversation may have per language, dependencies included",
    ),
    variable(
        "PACKAGE_CACHE_SIZE",
        "1g",
        "bytes of downloads that are kept for other conversations; 0: none",
    ),
    variable(
        "PACKAGE_RATE_LIMIT",
        "30/h",
        "installs of one conversation, such as `5/m` or `30/h`; 0: no limit",
    ),
    variable(
        "AUDIT_LOG",
        "",
        "file that says who did what, one line of JSON for each event, or `stdout`; default: none; see docs/audit.md",
    ),
    variable(
        "AUDIT_REQUIRED",
        "0",
        "whether runs, installs and changes of files are refused while AUDIT_LOG cannot be written",
    ),
    variable("LOG_FORMAT", "text", "`text` or `json`"),
    variable(
        "LOG_LEVEL",
        "",
        "level of the log, such as `debug` or `WARNING`, if RUST_LOG is not set",
    ),
    variable(
        "RUST_LOG",
        "info,rmcp=warn,rmcp::service=off",
        "log filter, such as `debug` or `mcp_code_sandbox=debug`; libraries say more than `info` only if they are named",
    ),
];
