//! HTTP: every request says for whom it is, and each is looked at. What is asked for goes over a connection of the
//! server's own, so nothing reaches a host but the requests that were let through.
//!
//! Without TLS that is all there is to it. To hosts that secrets are for, a [`Broker`] has taken the TLS away.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::broker::Broker;
use super::proxy::Route;
use super::report::{DeniedReason, INVALID};
use super::traffic::Meter;
use crate::allow_list::HostName;

/// How long a program may take for the head of its next request.
const IDLE: Duration = Duration::from_mins(5);
/// What is between two neighbours only (RFC 9110, 7.6.1), and is not passed on.
const HOP_BY_HOP: [HeaderName; 5] = [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// What a program is answered.
pub(super) type Answer = Response<Body>;
/// The body of that.
pub(super) type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// Why a request gets an answer of the server's own.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) reason: DeniedReason,
    pub(super) words: &'static str,
}

/// The connection to the host that was asked last.
struct Upstream {
    name: HostName,
    requests: SendRequest<Incoming>,
    _copying: JoinSet<()>,
}

struct Web {
    route: Route,
    meter: Arc<Meter>,
    broker: Option<Broker>,
    upstream: Mutex<Option<Upstream>>,
}

/// Passes on requests of a program for the hosts of one entry, by way of a broker for the host that it is for.
pub(super) async fn relay<S>(stream: S, meter: Arc<Meter>, route: Route, broker: Option<Broker>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let web = Web {
        route,
        meter,
        broker,
        upstream: Mutex::new(None),
    };
    let service = service_fn(|request| async {
        Ok::<_, std::convert::Infallible>(web.answer(request).await)
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), service);
    // A program that breaks off is none of our business.
    let _ = served.await;
}

impl Web {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let named = self.whom(&request);
        let told = named.as_ref().map_or(INVALID, HostName::as_str).to_owned();
        let answered = match named.filter(|name| self.is_for(name)) {
            Some(name) => self.pass_on(&name, request).await,
            None => Err(Refusal {
                status: StatusCode::MISDIRECTED_REQUEST,
                reason: DeniedReason::HostMismatch,
                words: "the request is for another host than its connection",
            }),
        };
        answered.unwrap_or_else(|refusal| {
            let port = self.route.entry.port;
            self.route.traffic.deny(&told, port, refusal.reason);
            refusal.into()
        })
    }

    fn is_for(&self, name: &HostName) -> bool {
        match &self.broker {
            Some(broker) => broker.name() == name,
            None => self.route.entry.pattern.matches(name),
        }
    }

    /// For whom a request is; `None` if that is not clear, or it is for a proxy.
    fn whom(&self, request: &Request<Incoming>) -> Option<HostName> {
        let (scheme, port) = match self.broker {
            Some(_) => ("https", ":443"),
            None => ("http", ":80"),
        };
        whom(request, scheme, port)
    }

    async fn pass_on(
        &self,
        name: &HostName,
        request: Request<Incoming>,
    ) -> Result<Answer, Refusal> {
        let request = passed_on(name, request);
        let (request, used) = match &self.broker {
            Some(broker) => broker.fill(request)?,
            None => (request, Vec::new()),
        };
        let mut answer = self.ask(name, request, &used).await?;
        let Some(broker) = &self.broker else {
            remove_hop_by_hop(answer.headers_mut());
            return Ok(answer.map(BodyExt::boxed_unsync));
        };
        let meter = Arc::clone(&self.meter);
        broker.search(answer, move || meter.reflected_secret())
    }

    /// The host's answer, over the connection that there is, or a new one.
    async fn ask(
        &self,
        name: &HostName,
        request: Request<Incoming>,
        used: &[&str],
    ) -> Result<Response<Incoming>, Refusal> {
        let mut upstream = self.upstream.lock().await;
        let is_there = match &mut *upstream {
            Some(it) if it.name == *name => it.requests.ready().await.is_ok(),
            _ => false,
        };
        if !is_there {
            *upstream = None;
        }
        let upstream = match &mut *upstream {
            Some(upstream) => upstream,
            none @ None => none.insert(self.connect(name).await.map_err(unreachable)?),
        };
        // Before it is sent: a program that does not wait for the answer has used it all the same.
        for variable in used {
            self.meter.used_secret(variable);
        }
        let sent = upstream.requests.send_request(request).await;
        sent.map_err(|_| unreachable(DeniedReason::Unreachable))
    }

    async fn connect(&self, name: &HostName) -> Result<Upstream, DeniedReason> {
        let stream = self.route.dial(name).await?;
        let mut copying = JoinSet::new();
        let requests = match &self.broker {
            Some(broker) => speak(broker.connect(stream).await?, &mut copying).await?,
            None => speak(stream, &mut copying).await?,
        };
        self.meter.connected(name, self.route.entry.port);
        Ok(Upstream {
            name: name.clone(),
            requests,
            _copying: copying,
        })
    }
}

/// Begins to speak HTTP with a host.
async fn speak<S>(
    stream: S,
    copying: &mut JoinSet<()>,
) -> Result<SendRequest<Incoming>, DeniedReason>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shaken = handshake(TokioIo::new(stream)).await;
    let (requests, connection) = shaken.map_err(|_| DeniedReason::Unreachable)?;
    copying.spawn(async {
        let _ = connection.await;
    });
    Ok(requests)
}

fn unreachable(reason: DeniedReason) -> Refusal {
    let words = match reason {
        DeniedReason::TlsFailed => "the host's certificate is not valid, or it speaks no TLS",
        _ => "the host cannot be reached",
    };
    Refusal {
        status: StatusCode::BAD_GATEWAY,
        reason,
        words,
    }
}

fn whom(request: &Request<Incoming>, scheme: &str, port: &str) -> Option<HostName> {
    if request.method() == Method::CONNECT {
        return None;
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, None) = (hosts.next()?, hosts.next()) else {
        return None;
    };
    let host = host.to_str().ok()?;
    // The address in full counts for more than the header, and so has to say the same.
    let uri = request.uri();
    let is_same = uri
        .authority()
        .is_none_or(|authority| authority.as_str().eq_ignore_ascii_case(host));
    if !is_same || uri.scheme_str().is_some_and(|said| said != scheme) {
        return None;
    }
    HostName::of_ascii(host.strip_suffix(port).unwrap_or(host)).ok()
}

/// The request as it goes to the host.
fn passed_on(name: &HostName, mut request: Request<Incoming>) -> Request<Incoming> {
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    // Of two lengths the one of the pieces counts (RFC 9112, 6.3), so a host must not see the other.
    if request.headers().contains_key(TRANSFER_ENCODING) {
        request.headers_mut().remove(CONTENT_LENGTH);
    }
    remove_hop_by_hop(request.headers_mut());
    if let Ok(host) = HeaderValue::from_str(name.as_str()) {
        request.headers_mut().insert(HOST, host);
    }
    request
}

pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter();
    let named: Vec<HeaderName> = named
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.into_iter().chain(named) {
        headers.remove(name);
    }
    let others = [
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
    ];
    for name in others {
        headers.remove(name);
    }
}

/// An answer of the server's own, after which the connection ends.
impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        let body = Full::new(Bytes::from_static(refusal.words.as_bytes()));
        let body = body.map_err(|never| match never {}).boxed_unsync();
        let mut answer = Self::new(body);
        *answer.status_mut() = refusal.status;
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(CONNECTION, close);
        answer
    }
}
