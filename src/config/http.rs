//! Where and for whom the server listens.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::reader::{ConfigErrors, Reader};
use super::{Dialect, RateLimit, names};

/// Longest time for the head of a request, and so for a connection without a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// Longest time for the body of a request: 50 MiB at two megabits a second.
const BODY_PATIENCE: Duration = Duration::from_mins(5);
/// Longest time for which a client may take nothing of what is sent to it.
const UNREAD_PATIENCE: Duration = Duration::from_mins(1);

/// The form of `ALLOWED_HOSTS`, in words.
const HOSTS: &str = "names of hosts separated by commas, each with or without a port, such as \
    `box.example,10.0.0.7:8080`, or `*` for any";
/// The form of `ALLOWED_ORIGINS`, in words.
const ORIGINS: &str = "origins separated by commas, such as `https://box.example` or `http://box.example:8080`, each \
    with a scheme and without a path, `:*` for any port, or `*` for any";

/// With one of these, there are callers without `MCP_API_TOKEN`.
const OTHER_WAYS_IN: [&str; 3] = ["ACCESS_FILE", "OAUTH_ISSUER", "CF_ACCESS_TEAM"];

/// Where and for whom the server listens.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Address to listen on (`MCP_HTTP_ADDR`).
    pub addr: SocketAddr,
    /// Address in links to files, without a trailing slash (`PUBLIC_BASE_URL`).
    pub public_base_url: String,
    /// Bearer token that `/mcp` asks for; `None` if callers are known by others alone (`MCP_API_TOKEN`).
    pub api_token: Option<SecretString>,
    /// File with further tokens, each for a tenant (`ACCESS_FILE`).
    pub access_file: Option<PathBuf>,
    /// Bearer token that `/metrics` asks for; `None` means that only this machine may read them (`METRICS_TOKEN`).
    pub metrics_token: Option<SecretString>,
    /// Bearer token that `/admin` asks for; `None` means that there is no such thing (`ADMIN_TOKEN`).
    pub admin_token: Option<SecretString>,
    /// Whether `/api/v1/health` tells everybody how busy the server is (`HEALTH_COUNTS`).
    pub health_counts: bool,
    /// Host names that requests may carry; `*` alone switches the check off (`ALLOWED_HOSTS`).
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may call the server; `*` alone switches the check off (`ALLOWED_ORIGINS`).
    pub allowed_origins: Vec<String>,
    /// How many requests one token may make; `None` means no limit (`RATE_LIMIT`).
    pub rate_limit: Option<RateLimit>,
    /// Which other front ends have an address here (`DIALECTS`).
    pub dialects: BTreeSet<Dialect>,
    /// How long an MCP session may go unused (`SESSION_IDLE_TTL`).
    pub session_idle: Duration,
    /// How long clients may take. No variable sets it.
    pub patience: Patience,
    /// How long runs may go on after SIGTERM (`SHUTDOWN_GRACE`).
    pub shutdown_grace: Duration,
}

/// How long clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// To send the head of a request, counted from the connection or from the previous answer.
    pub head: Duration,
    /// To send its body.
    pub body: Duration,
    /// To take more of an answer while the buffers on the way are full.
    pub unread: Duration,
}

/// Reads `MCP_HTTP_ADDR`, for a caller that takes the address before there is a whole configuration.
///
/// # Errors
/// It is not an address.
pub fn listen_address(lookup: &dyn Fn(&str) -> Option<String>) -> Result<SocketAddr, ConfigErrors> {
    let mut reader = Reader::new(lookup);
    let addr = reader.listen_address("MCP_HTTP_ADDR");
    reader.finish(addr)
}

/// Whether the server listens on one address only, other than the one that `localhost` leads to.
fn is_one(addr: SocketAddr) -> bool {
    let local = [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        Ipv6Addr::LOCALHOST.into(),
    ];
    !addr.ip().is_unspecified() && !local.contains(&addr.ip())
}

fn default_base_url(addr: SocketAddr) -> String {
    if is_one(addr) {
        return format!("http://{addr}");
    }
    format!("http://localhost:{}", addr.port())
}

/// What the operator allows is added to the server's own name, and never replaces it.
fn allowed_hosts(reader: &mut Reader<'_>, addr: SocketAddr, public: Option<&Url>) -> Vec<String> {
    let mut allowed = reader.list("ALLOWED_HOSTS", HOSTS, names::host);
    allowed.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    let own = public.and_then(Url::host_str);
    allowed.extend(own.and_then(names::host));
    allowed.extend(is_one(addr).then(|| addr.ip().to_string()));
    allowed.sort();
    allowed.dedup();
    allowed
}

impl HttpConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let addr = reader.listen_address("MCP_HTTP_ADDR");
        let public_base_url = reader
            .base_url("PUBLIC_BASE_URL")
            .unwrap_or_else(|| default_base_url(addr));
        let public = Url::parse(&public_base_url).ok();
        let allowed_hosts = allowed_hosts(reader, addr, public.as_ref());
        let mut allowed_origins = reader.list("ALLOWED_ORIGINS", ORIGINS, names::origin);
        if allowed_origins.is_empty() {
            // Pages of this machine, whatever serves them: they need the token like any other client.
            allowed_origins = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"]
                .map(str::to_owned)
                .to_vec();
        }
        // As browsers send it: without the usual port.
        allowed_origins.extend(public.map(|url| url.origin().ascii_serialization()));
        let access_file = reader.path("ACCESS_FILE");
        let api_token = if OTHER_WAYS_IN.iter().any(|name| reader.is_set(name)) {
            reader.optional_token("MCP_API_TOKEN", 16)
        } else {
            Some(reader.token("MCP_API_TOKEN", 16))
        };
        let metrics_token = reader.optional_token("METRICS_TOKEN", 16);
        let admin_token = reader.optional_token("ADMIN_TOKEN", 16);
        let is_admin_token = |token: &SecretString| {
            let admin = admin_token.as_ref().map(SecretString::expose_secret);
            admin == Some(token.expose_secret())
        };
        let others = [&api_token, &metrics_token];
        if others.into_iter().flatten().any(is_admin_token) {
            let expected = "another token than MCP_API_TOKEN and METRICS_TOKEN, whose holders are not to administer; make one with \
                `openssl rand -hex 32`";
            reader.reject_secret("ADMIN_TOKEN", expected);
        }
        Self {
            addr,
            public_base_url,
            api_token,
            access_file,
            allowed_hosts,
            allowed_origins,
            health_counts: reader.flag("HEALTH_COUNTS"),
            metrics_token,
            admin_token,
            rate_limit: reader.rate("RATE_LIMIT"),
            dialects: Dialect::read(reader),
            session_idle: reader.duration("SESSION_IDLE_TTL"),
            patience: Patience {
                head: HEAD_PATIENCE,
                body: BODY_PATIENCE,
                unread: UNREAD_PATIENCE,
            },
            shutdown_grace: reader.duration("SHUTDOWN_GRACE"),
        }
    }

    /// The path of the public address, without a trailing slash: empty unless a proxy serves us below a path.
    pub fn public_path(&self) -> &str {
        let rest = self.public_base_url.split_once("://");
        let authority_and_path = rest.map_or("", |(_, rest)| rest);
        let path = authority_and_path.find('/');
        path.map_or("", |start| {
            authority_and_path[start..].trim_end_matches('/')
        })
    }
}
