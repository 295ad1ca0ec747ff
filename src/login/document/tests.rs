//! The real fetch, from a server with TLS on this machine that is taken for one on the internet.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use reqwest::Certificate;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, pause};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::*;

const ID: &str = "https://client.example/client.json";
const CALLBACK: &str = "http://localhost/callback";

/// A host at which a client's document is, or something else.
struct Site {
    address: SocketAddr,
    certificate: Certificate,
    /// How often it has answered.
    answered: watch::Receiver<usize>,
    _server: AbortOnDropHandle<()>,
}

/// Every name is this address.
struct Here(SocketAddr);

impl Resolve for Here {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses: Addrs = Box::new([self.0].into_iter());
        Box::pin(async move { Ok(addresses) })
    }
}

impl Site {
    /// Answers everybody with these bytes, and keeps the connection.
    async fn answering(answer: String) -> Self {
        let names = ["client.example".to_owned()];
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (counter, answered) = watch::channel(0);
        let server = TaskTracker::new().spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(stream) = serve(&acceptor, stream, &answer).await {
                    open.push(stream);
                    counter.send_modify(|count| *count += 1);
                }
            }
        });
        Self {
            address,
            certificate: Certificate::from_der(cert.der()).unwrap(),
            answered,
            _server: AbortOnDropHandle::new(server),
        }
    }

    /// What fetches from it.
    fn documents(&self) -> Documents {
        let roads = builder().tls_certs_merge([self.certificate.clone()]);
        Documents::through(roads.dns_resolver(Here(self.address))).unwrap()
    }

    fn answered(&self) -> usize {
        *self.answered.borrow()
    }
}

/// Answers the first request of a connection.
async fn serve(acceptor: &TlsAcceptor, stream: TcpStream, answer: &str) -> io::Result<impl Sized> {
    let mut stream = acceptor.accept(stream).await?;
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_buf(&mut request).await?;
    }
    stream.write_all(answer.as_bytes()).await?;
    stream.flush().await?;
    Ok(stream)
}

fn ok(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn document(id: &str) -> String {
    let document =
        json!({ "client_id": id, "client_name": "Example", "redirect_uris": [CALLBACK] });
    document.to_string()
}

/// Why what a site answers is not usable.
async fn refused(answer: String) -> String {
    let site = Site::answering(answer).await;
    let error = site.documents().client(ID).await.unwrap_err();
    assert_eq!(site.answered(), 1);
    error.to_string()
}

#[tokio::test]
async fn a_document_is_fetched_and_kept() {
    let site = Site::answering(ok(&document(ID))).await;
    let documents = site.documents();
    for _ in 0..2 {
        let client = documents.client(ID).await.unwrap();
        assert_eq!((client.id(), client.name()), (ID, "Example"));
        assert!(client.redirect("http://localhost:4711/callback").is_some());
    }
    assert_eq!(site.answered(), 1);
}

#[tokio::test]
async fn a_site_that_nobody_vouches_for_is_not_asked() {
    let site = Site::answering(ok(&document(ID))).await;
    let documents = Documents::through(builder().dns_resolver(Here(site.address))).unwrap();
    let error = documents.client(ID).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    assert_eq!(site.answered(), 0);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let location = "https://client.example/elsewhere";
    let answer = format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
    insta::assert_snapshot!(refused(answer).await, @"the client's document https://client.example/client.json is not usable: the answer has the status 302 Found");
}

#[tokio::test]
async fn a_document_that_is_too_large_is_not_read() {
    let padded = format!("{}{}", document(ID), " ".repeat(MAX_BYTES));
    insta::assert_snapshot!(refused(ok(&padded)).await, @"the client's document https://client.example/client.json is not usable: the answer has more than 5120 bytes");
}

#[tokio::test]
async fn a_site_that_does_not_go_on_is_given_up() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_owned();
    let mut site = Site::answering(half).await;
    let documents = site.documents();
    let begun = Instant::now();
    let asking = documents.client(ID);
    let waiting = async {
        site.answered.wait_for(|count| *count == 1).await.unwrap();
        // From here on, time passes as soon as nothing else does.
        pause();
    };
    let (asked, ()) = tokio::join!(asking, waiting);
    let error = asked.unwrap_err().to_string();
    assert!(error.contains("timed out"), "{error}");
    assert!(begun.elapsed() >= Duration::from_secs(4), "{begun:?}");
}

#[tokio::test]
async fn what_is_not_about_the_client_does_not_count() {
    insta::assert_snapshot!(refused(ok(&document("https://client.example/other.json"))).await, @"the client's document https://client.example/client.json is not usable: its `client_id` is another one");
    insta::assert_snapshot!(refused(ok("<html>")).await, @"the client's document https://client.example/client.json is not usable: expected value at line 1 column 1");
}

#[test]
fn documents_have_plain_addresses_of_names() {
    assert!(address("https://claude.ai/oauth/claude-code-client-metadata").is_some());
    for id in [
        "https://client.example",
        "https://client.example/",
        "https://client.example:8443/a",
        "https://127.0.0.1/a",
        "https://[::1]/a",
        "https://2130706433/a",
        "https://me@client.example/a",
        "https://client.example/a#b",
        "https://client.example/a/../b",
        "https://CLIENT.example/a",
        "http://client.example/a",
    ] {
        assert_eq!(address(id), None, "{id}");
    }
}

#[test]
fn a_document_is_about_the_client_of_its_address() {
    let id = "https://claude.ai/oauth/claude-code-client-metadata";
    let document = |id: &str, uri: &str| {
        let document = json!({
            "client_id": id,
            "client_name": "Claude Code",
            "redirect_uris": [uri],
            "grant_types": ["authorization_code", "refresh_token"],
        });
        document.to_string().into_bytes()
    };
    let local = "http://localhost/callback";
    let client = described(id, &document(id, local)).unwrap();
    assert_eq!((client.id(), client.name()), (id, "Claude Code"));
    assert!(client.redirect("http://localhost:4711/callback").is_some());
    for bad in [
        document("https://elsewhere.example/a", local),
        document(id, "https://elsewhere.example/callback"),
        b"<html>".to_vec(),
    ] {
        assert!(described(id, &bad).is_err());
    }
}

#[tokio::test]
async fn names_of_this_machine_are_not_asked() {
    let error = PublicOnly.resolve("localhost".parse().unwrap()).await;
    let error = error.err().unwrap().to_string();
    assert_eq!(error, "the name has an address that is not public");
    let documents = Documents::new().unwrap();
    let error = documents.client("https://localhost/client").await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("an address that is not public"), "{error}");
}
