//! HTTP without TLS: every request says for whom it is, and each is looked at. What is asked for goes over a connection
//! of the server's own, so nothing reaches a host but the requests that were let through.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{
    CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::metered::Metered;
use super::proxy::Route;
use super::report::DeniedReason;
use super::traffic::Meter;
use crate::allow_list::{HTTP_PORT, HostName};

/// How long a program may take for the head of its next request.
const IDLE: Duration = Duration::from_mins(5);
/// What is between two neighbours only (RFC 9110, 7.6.1), and is not passed on.
const HOP_BY_HOP: [HeaderName; 5] = [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

type Answer = Response<Either<Incoming, Full<Bytes>>>;

/// The connection to the host that was asked last.
struct Upstream {
    name: HostName,
    requests: SendRequest<Incoming>,
    _copying: JoinSet<()>,
}

struct Web {
    route: Route,
    meter: Arc<Meter>,
    upstream: Mutex<Option<Upstream>>,
}

/// Passes on requests of a program for the hosts of one entry.
pub(super) async fn relay<S>(stream: S, route: Route)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let meter = route.traffic.meter();
    let stream = Metered::new(stream, Arc::clone(&meter));
    let web = Web {
        route,
        meter,
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
        let Some(name) = whom(&request).filter(|name| self.route.entry.pattern.matches(name))
        else {
            let host = whom(&request).map_or("(invalid)".to_owned(), |name| name.to_string());
            self.route
                .traffic
                .deny(&host, HTTP_PORT, DeniedReason::HostMismatch);
            return refusal(
                StatusCode::MISDIRECTED_REQUEST,
                "the request is for another host than its connection",
            );
        };
        match self.pass_on(&name, request).await {
            Ok(answer) => answer,
            Err(reason) => {
                self.route.traffic.deny(name.as_str(), HTTP_PORT, reason);
                refusal(StatusCode::BAD_GATEWAY, "the host cannot be reached")
            }
        }
    }

    async fn pass_on(
        &self,
        name: &HostName,
        request: Request<Incoming>,
    ) -> Result<Answer, DeniedReason> {
        let mut upstream = self.upstream.lock().await;
        let is_there = upstream
            .as_ref()
            .is_some_and(|it| it.name == *name && !it.requests.is_closed());
        if !is_there {
            *upstream = None;
            *upstream = Some(self.connect(name).await?);
        }
        let Some(Upstream { requests, .. }) = &mut *upstream else {
            return Err(DeniedReason::Unreachable);
        };
        let sent = requests.send_request(passed_on(name, request)).await;
        let mut answer = sent.map_err(|_| DeniedReason::Unreachable)?;
        remove_hop_by_hop(answer.headers_mut());
        Ok(answer.map(Either::Left))
    }

    async fn connect(&self, name: &HostName) -> Result<Upstream, DeniedReason> {
        let stream = self.route.dial(name).await?;
        let shaken = handshake(TokioIo::new(stream)).await;
        let (requests, connection) = shaken.map_err(|_| DeniedReason::Unreachable)?;
        self.meter.connected(name, HTTP_PORT);
        let mut copying = JoinSet::new();
        copying.spawn(async {
            let _ = connection.await;
        });
        Ok(Upstream {
            name: name.clone(),
            requests,
            _copying: copying,
        })
    }
}

/// For whom a request is; `None` if that is not clear, or it is for a proxy.
fn whom(request: &Request<Incoming>) -> Option<HostName> {
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
    if !is_same || uri.scheme_str().is_some_and(|scheme| scheme != "http") {
        return None;
    }
    HostName::of_ascii(host.strip_suffix(":80").unwrap_or(host)).ok()
}

/// The request as it goes to the host.
fn passed_on(name: &HostName, mut request: Request<Incoming>) -> Request<Incoming> {
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    remove_hop_by_hop(request.headers_mut());
    if let Ok(host) = HeaderValue::from_str(name.as_str()) {
        request.headers_mut().insert(HOST, host);
    }
    request
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
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
fn refusal(status: StatusCode, reason: &'static str) -> Answer {
    let body = Full::new(Bytes::from_static(reason.as_bytes()));
    let mut answer = Response::new(Either::Right(body));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
