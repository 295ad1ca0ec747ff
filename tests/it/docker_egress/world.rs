//! Hosts of the tests' own, on this machine's loopback: a web server with TLS, one without, and one that echoes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use mcp_code_sandbox::allow_list::AllowList;
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Names that the server's certificate is for.
const NAMES: [&str; 4] = ["api.test", "other.test", "x.wild.test", "private.test"];

type Files = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// The hosts. Dropping it ends them.
pub(super) struct World {
    /// What clients have to trust.
    pub(super) ca: String,
    web: SocketAddr,
    tls: SocketAddr,
    echo: SocketAddr,
    /// Hosts of other tests beside these, as entries of the list.
    more: Vec<(String, SocketAddr)>,
    /// What the web servers have, by path.
    files: Files,
    /// `Host` and path of each request that came, and what authorised it.
    seen: Arc<Mutex<Vec<String>>>,
    open: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl World {
    pub(super) async fn new() -> Self {
        let mut ca = CertificateParams::default();
        ca.distinguished_name
            .push(DnType::CommonName, "an authority");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut leaf = CertificateParams::new(NAMES.map(str::to_owned)).unwrap();
        leaf.distinguished_name.push(DnType::CommonName, "a host");
        // Strict clients want to know who has signed it.
        leaf.use_authority_key_identifier_extension = true;
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
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let mut serving = JoinSet::new();
        let [web, tls, echo] = [listener().await, listener().await, listener().await];
        let [at_web, at_tls, at_echo] = [&web, &tls, &echo].map(|it| it.local_addr().unwrap());
        let files = Files::default();
        let (to_web, web_files) = (Arc::clone(&seen), Arc::clone(&files));
        serving.spawn(each(web, move |stream| {
            answer(stream, Arc::clone(&to_web), Arc::clone(&web_files))
        }));
        let (to_tls, tls_files) = (Arc::clone(&seen), Arc::clone(&files));
        serving.spawn(each(tls, move |stream| {
            let acceptor = acceptor.clone();
            let (seen, files) = (Arc::clone(&to_tls), Arc::clone(&tls_files));
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream, seen, files).await;
                }
            }
        }));
        let open = Arc::<AtomicUsize>::default();
        let to_echo = Arc::clone(&open);
        serving.spawn(each(echo, move |mut stream| {
            let open = Arc::clone(&to_echo);
            async move {
                open.fetch_add(1, Ordering::SeqCst);
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                open.fetch_sub(1, Ordering::SeqCst);
            }
        }));
        Self {
            ca: ca.pem(),
            web: at_web,
            tls: at_tls,
            echo: at_echo,
            more: Vec::new(),
            files,
            seen,
            open,
            _serving: serving,
        }
    }

    /// How many connections the host that echoes has.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// What came to the web servers since this was last asked.
    pub(super) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock())
    }

    /// Has the web servers give a file.
    pub(super) fn serve(&self, path: &str, content: &[u8]) {
        self.files.lock().insert(path.to_owned(), content.to_vec());
    }

    /// Lists another host of a test, which is at this address.
    pub(super) fn list(&mut self, entry: &str, address: SocketAddr) {
        self.more.push((entry.to_owned(), address));
    }

    /// The settings of a server whose programs may reach these hosts.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let Self { web, tls, echo, .. } = self;
        let mut allow = "api.test,other.test,*.wild.test,plain.test:80,db.test:5432,metadata.test,nowhere.test,shut.test".to_owned();
        assert!(AllowList::new(allow.split(',').map(|entry| entry.parse().unwrap())).is_ok());
        let mut hosts = format!(
            "api.test={tls},other.test={tls},x.wild.test={tls},plain.test={web},db.test={echo},\
             metadata.test=169.254.169.254,shut.test=127.0.0.1:1"
        );
        for (entry, address) in &self.more {
            let (name, _) = entry.split_once(':').unwrap_or((entry, ""));
            write!(allow, ",{entry}").unwrap();
            write!(hosts, ",{name}={address}").unwrap();
        }
        vec![
            ("NETWORK_ALLOW", allow),
            ("NETWORK_HOSTS", hosts),
            ("NETWORK_PRIVATE", "127.0.0.0/8".to_owned()),
        ]
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

async fn each<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut serving = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        serving.spawn(serve(stream));
    }
}

/// Gives a file, or says for whom the request was, or, at `/big`, sends a megabyte. What authorised it is said back in a
/// header, and at `/echo` all headers are.
async fn answer<S>(stream: S, seen: Arc<Mutex<Vec<String>>>, files: Files)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let service = service_fn(|request: Request<Incoming>| {
        let host = request
            .headers()
            .get(HOST)
            .map_or("", |host| host.to_str().unwrap());
        let line = format!("{host} {}", request.uri());
        seen.lock().push(line.clone());
        let authorization = request.headers().get(AUTHORIZATION).cloned();
        if let Some(authorization) = &authorization {
            let authorization = authorization.to_str().unwrap();
            seen.lock().push(authorization.to_owned());
        }
        let file = files.lock().get(request.uri().path()).cloned();
        let body = match (file, request.uri().path()) {
            (Some(file), _) => file,
            (None, "/echo") => format!("{:?}", request.headers()).into_bytes(),
            (None, "/big") => vec![b'x'; 1 << 20],
            (None, _) => line.into_bytes(),
        };
        let length = body.len();
        let is_page = request.uri().path().ends_with('/');
        let mut response = Response::new(Full::new(Bytes::from(body)));
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
        if let Some(authorization) = authorization {
            let echo = HeaderName::from_static("x-echo");
            response.headers_mut().insert(echo, authorization);
        }
        if is_page {
            let html = HeaderValue::from_static("text/html");
            response.headers_mut().insert(CONTENT_TYPE, html);
        }
        async { Ok::<_, Infallible>(response) }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}
