//! Requests of a program to a host that secrets are for, over TLS on both sides.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::config::{NetworkConfig, NetworkMode};
use crate::egress::dialer::Dialer;
use crate::egress::proxy::Route;
use crate::egress::relay::relay;
use crate::egress::traffic::Traffic;

const VALUE: &str = "ghp_0123456789abcdef";
const PLACEHOLDER: &str = "ghp_zzzzzzzzzzzzzzzz";

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

fn secret() -> BoundSecret {
    BoundSecret {
        variable: "TOKEN".to_owned(),
        placeholder: PLACEHOLDER.to_owned(),
        value: VALUE.into(),
        hosts: vec![name("api.test")],
        header: hyper::header::AUTHORIZATION,
        methods: Vec::new(),
        paths: vec!["/open/*".parse().unwrap()],
    }
}

/// A host on loopback that answers each request with the bytes that it is given, in which `{}` is the head that came.
struct Host {
    address: SocketAddr,
    root: CertificateDer<'static>,
    seen: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl Host {
    async fn new(certified: &str, answer: &'static [&'static str]) -> Self {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new([certified.to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &ca).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![leaf.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let mut serving = JoinSet::new();
        let to_host = Arc::clone(&seen);
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, seen) = (acceptor.clone(), Arc::clone(&to_host));
                connections.spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    while let Some(head) = head(&mut stream).await {
                        seen.lock().push(head.clone());
                        for piece in answer {
                            let piece = piece.replace("{}", &head);
                            let piece = piece.replace("{length}", &head.len().to_string());
                            // Each piece is a record of its own.
                            stream.write_all(piece.as_bytes()).await.unwrap();
                            stream.flush().await.unwrap();
                        }
                        if !answer[0].contains("{length}") {
                            let _ = stream.shutdown().await;
                            return;
                        }
                    }
                });
            }
        });
        Self {
            address,
            root: ca.der().clone(),
            seen,
            _serving: serving,
        }
    }

    /// Sends requests over one connection through the proxy, and returns what came back and what is in the books.
    async fn ask(&self, requests: &[String]) -> (String, String) {
        let traffic = Traffic::new(1 << 20);
        let config = NetworkConfig {
            mode: NetworkMode::Listed,
            ask: false,
            allow: None,
            private: vec!["127.0.0.0/8".parse().unwrap()],
            hosts: vec![(
                name("api.test"),
                (self.address.ip(), Some(self.address.port())),
            )],
            max_bytes: 1 << 20,
            max_connections: 9,
            secrets_file: None,
            ca_bundle: None,
        };
        let authority = Authority::new(&[name("api.test")]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates([pem(authority.pem())]);
        let interception = Interception::new(authority, std::slice::from_ref(&self.root)).unwrap();
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let route = Route {
            entry: "api.test".parse().unwrap(),
            is_named: true,
            secrets: Arc::new([secret()]),
            search: Arc::new(Search::new(&[secret()]).unwrap()),
            lookups: Arc::new(tokio::sync::Semaphore::new(1)),
            dialer: Arc::new(Dialer::new(&config, Some(Arc::new(interception)))),
            traffic: Arc::clone(&traffic),
        };
        let client = async move {
            let Some(mut stream) = speak(ours, roots).await else {
                return String::new();
            };
            for request in requests {
                stream.write_all(request.as_bytes()).await.unwrap();
            }
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8_lossy(&answer).into_owned()
        };
        let (answer, ()) = tokio::join!(client, relay(theirs, route));
        (answer, traffic.report().to_string())
    }
}

/// The certificate in a text.
fn pem(text: &str) -> CertificateDer<'static> {
    use rustls::pki_types::pem::PemObject as _;
    CertificateDer::from_pem_slice(text.as_bytes()).unwrap()
}

/// TLS with a host, as a program speaks it.
async fn speak(stream: DuplexStream, roots: RootCertStore) -> Option<Outward<DuplexStream>> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerName::try_from("api.test").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(server, stream).await.ok()
}

async fn head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// A request of a program, with more headers.
fn request(line: &str, more: &str) -> String {
    let close = if more.contains("connection:") {
        ""
    } else {
        "connection: close\r\n"
    };
    format!("{line} HTTP/1.1\r\nhost: api.test\r\n{close}{more}\r\n")
}

fn bearer() -> String {
    format!("authorization: Bearer {PLACEHOLDER}\r\n")
}

const ECHO: &[&str] = &["HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{}"];

#[tokio::test]
async fn the_host_gets_the_secret_and_the_program_gets_it_never() {
    let host = Host::new("api.test", ECHO).await;
    let (answer, books) = host.ask(&[request("GET /open/a", &bearer())]).await;
    let seen = host.seen.lock().concat();
    assert!(
        seen.contains(&format!("authorization: Bearer {VALUE}\r\n")),
        "{seen}"
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains(PLACEHOLDER) && !answer.contains(VALUE),
        "{answer}"
    );
    insta::assert_snapshot!(books, @"network: api.test 1 connection with TOKEN (it sent a secret back, which was hidden)");
}

#[tokio::test]
async fn what_it_is_not_for_gets_no_secret() {
    let host = Host::new("api.test", ECHO).await;
    let mut told = String::new();
    let body = format!("{}content-length: 20\r\n", "connection: close\r\n");
    for request in [
        request("GET /closed", &bearer()),
        request("GET /open/%2e%2e/closed", &bearer()),
        request("TRACE /open/a", &bearer()),
        request("CONNECT api.test:443", &bearer()),
        request("GET /open/a", &format!("{0}{0}", bearer())),
        request("GET https://other.test/open/a", &bearer()),
        request("GET http://api.test/open/a", &bearer()),
        request("GET /open/a", &bearer()).replace("host: api.test", "host: other.test"),
        request("GET /open/a", &bearer()).replace("host: api.test\r\n", ""),
        request("GET /open/a", &format!("{}host: other.test\r\n", bearer())),
        request(
            "GET /open/a",
            &format!("authorization: Bearer\r\n {PLACEHOLDER}\r\n"),
        ),
        request(
            "GET /open/a",
            &format!("user-agent: {PLACEHOLDER}\r\norigin: {PLACEHOLDER}\r\n"),
        ),
        request(&format!("GET /open/{PLACEHOLDER}?token={PLACEHOLDER}"), ""),
        request("POST /open/a", &format!("{body}\r\n{PLACEHOLDER}")),
        "GET / HTTP/0.9\r\n\r\n".to_owned(),
    ] {
        let (answer, books) = host.ask(&[request]).await;
        let status = answer.lines().next().unwrap_or("nothing");
        let reason = books
            .split_once("denied: ")
            .map_or("", |(_, denied)| denied);
        writeln!(told, "{}", format!("{status} {reason}").trim()).unwrap();
        assert!(!answer.contains(VALUE), "{answer}");
    }
    assert!(!host.seen.lock().concat().contains(VALUE));
    insta::assert_snapshot!(told, @r"
    HTTP/1.1 403 Forbidden api.test (secret refused)
    HTTP/1.1 403 Forbidden api.test (secret refused)
    HTTP/1.1 501 Not Implemented api.test (secret refused)
    HTTP/1.1 421 Misdirected Request (invalid) (host mismatch)
    HTTP/1.1 403 Forbidden api.test (secret refused)
    HTTP/1.1 421 Misdirected Request (invalid) (host mismatch)
    HTTP/1.1 421 Misdirected Request (invalid) (host mismatch)
    HTTP/1.1 421 Misdirected Request other.test (host mismatch)
    HTTP/1.1 421 Misdirected Request (invalid) (host mismatch)
    HTTP/1.1 421 Misdirected Request (invalid) (host mismatch)
    HTTP/1.1 400 Bad Request
    HTTP/1.1 200 OK
    HTTP/1.1 200 OK
    HTTP/1.1 200 OK
    HTTP/1.1 400 Bad Request
    ");
}

#[tokio::test]
async fn each_request_of_a_connection_is_looked_at() {
    let host = Host::new("api.test", ECHO).await;
    let keep = format!("{}connection: keep-alive\r\n", bearer());
    let requests = [
        request("GET /open/a", &keep),
        request("GET /open/b", &keep),
        request("GET /open/c", &keep).replace("host: api.test", "host: other.test"),
    ];
    let (answer, books) = host.ask(&requests).await;
    let statuses: Vec<_> = answer
        .lines()
        .filter(|line| line.starts_with("HTTP/1.1"))
        .collect();
    insta::assert_snapshot!(statuses.join(", "), @"HTTP/1.1 200 OK, HTTP/1.1 200 OK, HTTP/1.1 421 Misdirected Request");
    insta::assert_snapshot!(books, @"network: api.test 1 connection with TOKEN (it sent a secret back, which was hidden); denied: other.test (host mismatch)");
    assert_eq!(host.seen.lock().len(), 2);
}

/// However a host sends it back: in the words beside the status, in headers, in pieces, at the end of everything.
#[tokio::test]
async fn no_form_of_an_answer_has_the_secret() {
    let answers: [&[&str]; 5] = [
        &[
            "HTTP/1.1 200 ghp_0123456789abcdef\r\nx-echo: ghp_0123456789abcdef\r\nghp_0123456789abcdef: x\r\nset-cookie: a=Z2hwXzAxMjM0NTY3ODlhYmNkZWY=\r\n\r\nx",
        ],
        &[
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "5\r\nghp_0\r\n",
            "f\r\n123456789abcdef\r\n",
            "0\r\nx-end: ghp_0123456789abcdef\r\n\r\n",
        ],
        &[
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ghp_",
            "0123456789abcde",
            "f\n\n",
        ],
        &[
            "HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\nghp_0123456789abcdef",
            "ghp_0123456789abcdef",
        ],
        &["HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nghp_0123456789abcdef"],
    ];
    let mut told = String::new();
    for answer in answers {
        let host = Host::new("api.test", answer).await;
        let (answer, books) = host.ask(&[request("GET /open/a", &bearer())]).await;
        assert!(!answer.contains("123456789abcdef"), "{answer}");
        assert!(!answer.contains("MjM0NTY3ODlhYmNkZWY"), "{answer}");
        write!(told, "{answer}\n{books}\n\n").unwrap();
    }
    insta::with_settings!({ filters => [(r"date: .*", "date: …"), (r"\r", "")] }, {
        insta::assert_snapshot!(told, @r"
        HTTP/1.1 200 OK
        x-echo: ghp_zzzzzzzzzzzzzzzz
        set-cookie: a=Z2hwX3p6enp6enp6enp6enp6enY=
        connection: close
        transfer-encoding: chunked
        date: …

        1
        x
        0


        network: api.test 1 connection with TOKEN (it sent a secret back, which was hidden)

        HTTP/1.1 200 OK
        connection: close
        transfer-encoding: chunked
        date: …

        14
        ghp_zzzzzzzzzzzzzzzz
        0


        network: api.test 1 connection with TOKEN (it sent a secret back, which was hidden)

        HTTP/1.1 200 OK
        content-type: text/event-stream
        connection: close
        transfer-encoding: chunked
        date: …

        1C
        data: ghp_zzzzzzzzzzzzzzzz


        0


        network: api.test 1 connection with TOKEN (it sent a secret back, which was hidden)

        HTTP/1.1 200 OK
        content-length: 40
        connection: close
        date: …

        ghp_zzzzzzzzzzzzzzzzghp_zzzzzzzzzzzzzzzz
        network: api.test 1 connection with TOKEN (it sent a secret back, which was hidden)

        HTTP/1.1 502 Bad Gateway
        connection: close
        content-length: 108
        date: …

        the host has packed its answer (Content-Encoding) or sent a part of it, so it cannot be searched for secrets
        network: api.test 1 connection with TOKEN; denied: api.test (unsearchable)
        ");
    });
}

/// What of the secret a request asks for in parts would be told in the end.
#[tokio::test]
async fn no_part_of_an_answer_is_asked_for_with_a_secret() {
    let host = Host::new("api.test", ECHO).await;
    let more = format!("{}range: bytes=0-7\r\naccept-encoding: gzip\r\n", bearer());
    host.ask(&[request("GET /open/a", &more)]).await;
    let seen = host.seen.lock().concat();
    assert!(!seen.contains("range"), "{seen}");
    assert!(seen.contains("accept-encoding: identity\r\n"), "{seen}");
}

#[tokio::test]
async fn a_host_with_another_certificate_gets_nothing() {
    let host = Host::new("other.test", ECHO).await;
    let (answer, books) = host.ask(&[request("GET /open/a", &bearer())]).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    insta::assert_snapshot!(books, @"network: denied: api.test (tls failed)");
    assert_eq!(host.seen.lock().len(), 0);
}

/// The authority is no danger to a program that trusts it: it can sign for its hosts only.
#[test]
fn the_authority_is_for_its_hosts_only() {
    let authority = Authority::new(&[name("api.test")]).unwrap();
    assert!(authority.server(&name("api.test")).is_some());
    assert!(authority.server(&name("other.test")).is_none());
}
