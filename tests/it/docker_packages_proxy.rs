//! Packages from a private index behind an HTTP proxy: programs of the sandbox reach the proxy and nothing else, and
//! only the proxy knows where the index is.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use crate::docker_network::{
    NAME, PRIVATE, PUBLIC, RULES, WEB, World, checked, in_the_world, install_rules, tcp,
};
use crate::docker_packages::install_for;
use crate::docker_packages_index::{TlsIndex, run};
use crate::support::TestApp;

/// What `PACKAGE_PROXY` has of its user, and how that arrives.
const USER: &str = "reader:secret";
const AUTHORIZATION: &str = "basic cmvhzgvyonnly3jlda==";

/// A proxy that connects to the index alone.
#[derive(Clone)]
struct Proxy {
    index: SocketAddr,
    /// The first line and the authorization of every request.
    asked: Arc<Mutex<Vec<(String, bool)>>>,
}

impl Proxy {
    /// Serves forever, where the programs' network leads.
    async fn serve(self) {
        let listener = in_the_world(|| tcp(WEB));
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let clients = TaskTracker::new();
        loop {
            let (client, _) = listener.accept().await.unwrap();
            clients.spawn(self.clone().pass(client));
        }
    }

    async fn pass(self, client: TcpStream) {
        let mut client = BufReader::new(client);
        let mut head = Vec::new();
        while !matches!(head.last().map(String::as_str), Some("")) {
            let mut line = String::new();
            if client.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            head.push(line.trim_end().to_owned());
        }
        let is_known = head.iter().any(|line| {
            line.to_ascii_lowercase() == format!("proxy-authorization: {AUTHORIZATION}")
        });
        let first = head.swap_remove(0);
        let is_ours = first.starts_with(&format!("CONNECT {NAME}:443 "));
        self.asked.lock().push((first, is_known));
        if !is_ours || !is_known {
            let _ = client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await;
            return;
        }
        let mut index = TcpStream::connect(self.index).await.unwrap();
        let _ = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let _ = tokio::io::copy_bidirectional(&mut client, &mut index).await;
    }
}

/// Called by the test that has the machine's rules to itself.
pub(crate) async fn packages_come_through_the_operators_proxy() {
    let _world = World::new();
    install_rules();
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = Proxy {
        index: listener.local_addr().unwrap(),
        asked: Arc::default(),
    };
    let index = TlsIndex::on(listener).await;
    tokio::select! {
        () = use_proxy(&index, &proxy) => {}
        () = proxy.clone().serve() => unreachable!("it serves for ever"),
    }
}

async fn use_proxy(index: &TlsIndex, proxy: &Proxy) {
    let (index_url, registry) = (format!("https://{NAME}/simple"), format!("https://{NAME}/"));
    let authority = index.authority();
    let address = format!("http://{USER}@{PUBLIC}:{WEB}");
    let settings = [
        RULES,
        ("RUN_DNS", PRIVATE),
        ("PIP_INDEX_URL", &index_url),
        ("NPM_CONFIG_REGISTRY", &registry),
        ("PACKAGE_CA_BUNDLE", &authority),
        ("PACKAGE_PROXY", &address),
    ];
    let app = TestApp::on_docker_with(&settings).await;
    index.fill(&app).await;
    assert_eq!(checked(&app).await, Ok(()));
    for (language, package) in [("python", "tiny-dep"), ("typescript", "tinyb")] {
        let answer = install_for(&app, "demo", language, json!([package])).await;
        assert_eq!(answer["success"], true, "{answer}");
        let asked = std::mem::take(&mut *proxy.asked.lock());
        assert!(!asked.is_empty(), "{language} asked somebody else");
        for (first, is_known) in asked {
            assert_eq!(first, format!("CONNECT {NAME}:443 HTTP/1.1"));
            assert!(is_known, "{first}");
        }
    }
    let code = "import tiny_dep; print(tiny_dep.VALUE)";
    assert_eq!(run(&app, "demo", "python", code).await, "dep 1.5\n");
    let code = "import b from 'tinyb'; console.log(b)";
    assert_eq!(run(&app, "demo", "typescript", code).await, "b 2.0.0\n");
    // It is for fetching packages: programs are told nothing of it.
    let code = "import os; print([name for name in os.environ if 'proxy' in name.lower()])";
    assert_eq!(run(&app, "demo", "python", code).await, "[]\n");
    app.assert_nothing_is_left().await;
}
