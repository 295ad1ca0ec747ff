//! Runs that reach a listed host, over TLS, beside runs without the network, with a list and without.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::cases::{self, BETWEEN};
use super::server::Server;
use super::stats::Series;

const COUNT: usize = 100;
/// The row of what the list is for.
const FETCHED: &str = "following run, 1 KB over TLS";
const FETCH: &str = "import ssl, urllib.request\n\
    context = ssl.create_default_context(cafile='/data/ca.pem')\n\
    print(len(urllib.request.urlopen('https://api.test/', context=context).read()))";

/// One row for each kind of run.
pub(crate) async fn measure() {
    println!("{}", Series::HEADER);
    let docker = cases::docker_run("mcp-sandbox-python", "print(1)", 30);
    docker.print(None);
    let baseline = Some(docker.median());
    let (host, ca, _serving) = host().await;
    let plain = Server::start(&[("POOL_SIZE", "2")]).await;
    plain.wait_until_full().await;
    let hosts = format!("api.test=127.0.0.1:{host}");
    let settings = [
        ("POOL_SIZE", "2"),
        ("NETWORK_ALLOW", "api.test"),
        ("NETWORK_PRIVATE", "127.0.0.0/8"),
        ("NETWORK_HOSTS", &*hosts),
    ];
    let listed = Server::start(&settings).await;
    listed.wait_until_full().await;
    let file =
        json!({ "conversationId": FETCHED, "filename": "ca.pem", "content": STANDARD.encode(ca) });
    listed.call("upload_file", file).await;
    let rows = [
        ("following run, no list", &plain, "print(1)", false),
        (
            "following run, with a list, not asked for",
            &listed,
            "print(1)",
            false,
        ),
        ("following run, network: true", &listed, "print(1)", true),
        (
            "following run, imports of the next",
            &plain,
            "import ssl, urllib.request; print(1)",
            false,
        ),
        (FETCHED, &listed, FETCH, true),
    ];
    let mut times = rows.map(|_| Vec::new());
    // In turn, so that whatever else the machine does is shared.
    for round in 0..=COUNT {
        for ((name, server, code, network), times) in rows.iter().zip(&mut times) {
            tokio::time::sleep(BETWEEN).await;
            let took = run(server, name, code, *network).await;
            // The first is for what is loaded then.
            if round > 0 {
                times.push(took);
            }
        }
    }
    for ((name, ..), times) in rows.iter().zip(times) {
        Series::new(name, times).print(baseline);
    }
    plain.stop();
    listed.stop();
}

/// A run of a conversation of its own, whose next interpreter has loaded what its last one imported.
async fn run(server: &Server, name: &str, code: &str, network: bool) -> Duration {
    let arguments =
        json!({ "conversationId": name, "language": "python", "code": code, "network": network });
    let started = Instant::now();
    let answer = server.call("run_code", arguments).await;
    let took = started.elapsed();
    assert_eq!(answer["status"], "ok", "{answer}");
    took
}

/// The port of a host that says a kilobyte, and what its clients have to trust.
async fn host() -> (u16, String, JoinSet<()>) {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["api.test".to_owned()]).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![cert.der().clone()],
            PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let head = "HTTP/1.1 200 OK\r\ncontent-length: 1024\r\nconnection: close\r\n\r\n";
                let answer = head.to_owned() + &"x".repeat(1024);
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    (port, cert.pem(), serving)
}
