//! What a server that stands by answers: whether it is alive and knows a leader. Everything else it passes on to that
//! one, as it comes, and the answer back as it comes.
//!
//! Nothing is asked twice, since it may have been done once.

mod headers;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::http::uri::{PathAndQuery, Scheme};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, http};
use futures::{StreamExt as _, stream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::debug;

use super::health;
use super::rest::ApiError;
use crate::api::code::Code;
use crate::replicas::{Leader, Standing};

/// How long the leader may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(1);
/// When it is worth trying again where there is no leader.
const AGAIN: Duration = Duration::from_secs(2);

/// What passes requests on.
#[derive(Clone, Debug)]
struct Standby {
    client: Client<HttpConnector, Body>,
    standing: watch::Receiver<Standing>,
    /// Those that are not answered yet.
    calls: TaskTracker,
}

/// All that a server answers while it stands by. What it passes on is on `calls` until the answer has left, except for
/// event streams, which have no end of their own.
pub fn standby(standing: watch::Receiver<Standing>, calls: TaskTracker) -> Router {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT));
    // Each request has a connection of its own: one that was kept may be closed by the other side just when the next
    // request is sent, of which nobody knows then whether it arrived.
    let client = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector);
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(ready))
        .fallback(pass_on)
        .with_state(Standby {
            client,
            standing,
            calls,
        })
}

/// Answers 200 if requests can be passed on.
async fn ready(State(state): State<Standby>) -> Response {
    if state.standing.borrow().leader().is_some() {
        return Json(json!({ "status": "ok", "standby": true })).into_response();
    }
    let reason = "no server leads at the moment";
    let body = json!({ "status": "unavailable", "reason": reason, "standby": true });
    (http::StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

async fn pass_on(State(state): State<Standby>, request: Request) -> Response {
    if headers::was_passed_on(request.headers()) {
        return no_leader(
            "a server that does not lead passed it on to this one, which does not either",
        );
    }
    let leader = state.standing.borrow().leader().cloned();
    let Some(leader) = leader else {
        return no_leader("no server leads at the moment");
    };
    let call = state.calls.token();
    match state.ask(request, &leader).await {
        Ok(answer) => returned(answer, state.standing, leader, call),
        Err(error) => error.into_response(),
    }
}

impl Standby {
    async fn ask(&self, request: Request, leader: &Leader) -> Result<Response, ApiError> {
        let request = addressed(request, leader.addr)?;
        let asked = self.client.request(request);
        let answer = tokio::select! {
            answer = asked => answer,
            // A leader that is not heard of may keep its connections.
            () = followed(self.standing.clone(), leader) => return Err(leader_lost()),
        };
        match answer {
            Ok(answer) => Ok(answer.map(Body::new)),
            Err(error) if error.is_connect() => {
                debug!(%error, leader = leader.name, "cannot reach the leader");
                Err(no_leader_error("the server that leads cannot be reached"))
            }
            Err(error) => {
                debug!(%error, leader = leader.name, "the leader did not answer");
                Err(leader_lost())
            }
        }
    }
}

/// The request as the leader is to have it.
fn addressed(request: Request, leader: SocketAddr) -> Result<Request, ApiError> {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map(|peer| peer.ip().to_canonical());
    let (mut parts, body) = request.into_parts();
    headers::pass_on(&mut parts.headers, parts.uri.authority(), peer);
    let path = parts.uri.path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let uri = Uri::builder()
        .scheme(Scheme::HTTP)
        .authority(leader.to_string())
        .path_and_query(path)
        .build();
    parts.uri =
        uri.map_err(|_| ApiError::new(Code::InvalidRequest, "the address is not a path"))?;
    parts.version = http::Version::HTTP_11;
    parts.extensions = http::Extensions::default();
    Ok(Request::from_parts(parts, body))
}

/// The answer as the client is to have it. It breaks off when another server leads: otherwise, one whose end never comes
/// would be waited for.
fn returned(
    answer: Response,
    standing: watch::Receiver<Standing>,
    leader: Leader,
    call: TaskTrackerToken,
) -> Response {
    let (mut parts, body) = answer.into_parts();
    headers::take_off_hop(&mut parts.headers);
    let kind = parts.headers.get(CONTENT_TYPE);
    let is_events = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let call = (!is_events).then_some(call);
    let lost = stream::once(async move {
        followed(standing, &leader).await;
        Err(axum::Error::new(io::Error::other("another server leads")))
    });
    let chunks = body
        .into_data_stream()
        .map(Some)
        .chain(stream::iter([None]));
    let body = stream::select(chunks, lost.map(Some))
        // The end of the answer is one of the whole.
        .take_while(|chunk| futures::future::ready(chunk.is_some()))
        .filter_map(move |chunk| {
            let _until_it_has_left = &call;
            futures::future::ready(chunk)
        });
    Response::from_parts(parts, Body::from_stream(body))
}

/// Resolves when that server does not lead any more, as far as is known.
async fn followed(mut standing: watch::Receiver<Standing>, leader: &Leader) {
    let other = |standing: &Standing| match standing {
        Standing::Led(it) => it != leader,
        // It may still answer what it was asked.
        Standing::Unknown => false,
        Standing::Leading => true,
    };
    if standing.wait_for(other).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn no_leader(why: &str) -> Response {
    no_leader_error(why).into_response()
}

fn no_leader_error(why: &str) -> ApiError {
    ApiError::again(
        Code::NoLeader,
        format!("{why}: try again in a moment"),
        AGAIN,
    )
}

fn leader_lost() -> ApiError {
    let message =
        "the server that leads went away before it answered: what was asked for may have been done";
    ApiError::new(Code::LeaderLost, message)
}
