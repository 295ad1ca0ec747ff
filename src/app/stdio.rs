//! The server as a client's child process: MCP on standard input and output, plus the page and the files over HTTP on
//! loopback, so that links work.
//!
//! A client that starts its own server should not have to configure it: there is nobody else to protect from, so what
//! is missing is made up. The token of `/mcp` is new each time. The secret behind directory names and links is kept in
//! `SANDBOX_ROOT`, so that conversations and links still work after a restart.

use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdTcpListener};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rmcp::service::serve_server_with_ct;
use rmcp::transport::{TransportAdapterIdentity, stdio_pipes};
use tokio::net::TcpListener;
use tracing::info;

use super::instance::{kept, unusable};
use super::{App, NOT_SERVED, Signals};
use crate::audit::AuditError;
use crate::config::{self, AuditTarget, Config};
use crate::mcp::transport::{Lines, UniqueIds};
use crate::workspace::make_root;

/// Where the secret is kept, below `SANDBOX_ROOT`.
const SECRET_FILE: &str = ".file-secret";

/// The configuration and the address that files are served on.
#[derive(Debug)]
pub struct StdioSetup {
    /// The environment's settings, completed with what was missing.
    pub config: Config,
    listener: StdTcpListener,
}

/// Works out the configuration of a server on standard input.
///
/// # Errors
/// No port is free, the directory of the files is not usable, or [`ConfigErrors`](crate::config::ConfigErrors).
pub fn set_up(lookup: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<StdioSetup> {
    let set = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
    let listener = listen(lookup)?;
    let addr = listener.local_addr()?.to_string();
    let root = set("SANDBOX_ROOT").unwrap_or_else(|| data_directory(&set).display().to_string());
    let token = hex::encode(rand::random::<[u8; 32]>());
    let secret = match set("FILE_SECRET") {
        Some(secret) => secret,
        None => file_secret(Path::new(&root))
            .map_err(|error| unusable(Path::new(&root), error.into()))?,
    };
    let config = Config::from_lookup(&|name| match name {
        "MCP_HTTP_ADDR" => Some(addr.clone()),
        "SANDBOX_ROOT" => Some(root.clone()),
        "FILE_SECRET" => Some(secret.clone()),
        "MCP_API_TOKEN" => set(name).or_else(|| Some(token.clone())),
        _ => set(name),
    })?;
    if config.audit.log == Some(AuditTarget::Stdout) {
        let why = "a client reads the protocol there: name a file";
        return Err(AuditError::NoStdout(why.to_owned()).into());
    }
    Ok(StdioSetup { config, listener })
}

/// The port of `MCP_HTTP_ADDR`, or else the usual one; if that is taken, any other.
fn listen(lookup: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<StdTcpListener> {
    let port = config::listen_address(lookup)?.port();
    let on = |port| StdTcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let listener = on(port)
        .or_else(|_| on(0))
        .context("no port is free on 127.0.0.1")?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Where programs keep a user's data (XDG base directories), since a client starts us in any directory.
fn data_directory(set: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let data = set("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(".local/share")))
        .unwrap_or_else(std::env::temp_dir);
    data.join("mcp-code-sandbox")
}

/// The secret that was kept, or a new one.
fn file_secret(root: &Path) -> std::io::Result<String> {
    make_root(root)?;
    let secret = hex::encode(rand::random::<[u8; 32]>());
    let kept = kept(&root.join(SECRET_FILE), &secret, 0o600)?;
    Ok(kept.trim().to_owned())
}

impl App {
    /// Serves one client on standard input and output until it closes the input, or until a signal. Then whatever
    /// still runs is cancelled.
    ///
    /// # Errors
    /// The page cannot be served.
    pub async fn serve_stdio(setup: StdioSetup) -> anyhow::Result<()> {
        let mut signals = Signals::heard()?;
        let app = Self::build(setup.config)?;
        Self::check_executor(&*app.platform.executor, &app.config).await?;
        let listener = TcpListener::from_std(setup.listener)?;
        let router = app.start();
        app.prove();
        app.announce(listener.local_addr()).await;
        let server = app.tasks.spawn(crate::http::serve(
            listener,
            router,
            app.config.http.patience,
            app.tasks.clone(),
            app.soft.clone().cancelled_owned(),
        ));
        let gone = app.hard.child_token();
        let (input, output) = stdio_pipes();
        let lines = Lines::new(input, output, app.max_body());
        let transport = UniqueIds::new(lines, gone.clone());
        let handler = app.handler();
        let client = async {
            let serving =
                serve_server_with_ct::<_, _, _, TransportAdapterIdentity>(handler, transport, gone);
            match Box::pin(serving).await {
                Ok(service) => drop(service.waiting().await),
                Err(error) => info!(%error, "the client said no hello"),
            }
        };
        let served = tokio::select! {
            () = client => {
                info!("standard input was closed");
                Ok(())
            }
            () = signals.next() => Ok(()),
            _ = server => Err(anyhow::anyhow!(NOT_SERVED)),
        };
        app.shut_down().await;
        app.join().await;
        served
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_up_in(root: &Path, more: &[(&str, &str)]) -> Config {
        let lookup = |name: &str| match name {
            "SANDBOX_ROOT" => Some(root.display().to_string()),
            _ => more
                .iter()
                .find(|(set, _)| *set == name)
                .map(|(_, value)| (*value).to_owned()),
        };
        set_up(&lookup).unwrap().config
    }

    #[test]
    fn nothing_has_to_be_set_and_the_secret_stays() {
        use std::os::unix::fs::PermissionsExt as _;

        use secrecy::ExposeSecret as _;
        let data = tempfile::tempdir().unwrap();
        let root = data.path().join("mcp-code-sandbox");
        let (first, second) = (set_up_in(&root, &[]), set_up_in(&root, &[]));
        let secret = |config: &Config| config.storage.file_secret.expose_secret().to_owned();
        let token = |config: &Config| {
            config
                .http
                .api_token
                .as_ref()
                .map(|token| token.expose_secret().to_owned())
        };
        assert_eq!(secret(&first), secret(&second));
        assert_ne!(token(&first), token(&second));
        assert_eq!(root.metadata().unwrap().permissions().mode() & 0o777, 0o711);
    }

    #[test]
    fn a_taken_port_is_replaced_and_links_follow() {
        let root = tempfile::tempdir().unwrap();
        let taken = StdTcpListener::bind("127.0.0.1:0").unwrap();
        let addr = taken.local_addr().unwrap();
        let config = set_up_in(root.path(), &[("MCP_HTTP_ADDR", &addr.to_string())]);
        assert_ne!(config.http.addr.port(), addr.port());
        assert_eq!(
            config.http.public_base_url,
            format!("http://localhost:{}", config.http.addr.port())
        );
        let config = set_up_in(root.path(), &[("PUBLIC_BASE_URL", "https://box.example")]);
        assert_eq!(config.http.public_base_url, "https://box.example");
    }
}
