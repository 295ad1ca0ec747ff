//! The HTTP surface: every route and the order of the middleware, on one page.

mod access;
mod addresses;
mod admin;
mod asset;
mod bearer;
mod dialects;
mod downloads;
mod entrance;
mod files;
mod health;
mod linger;
mod log_request;
mod login;
mod metadata;
mod metrics;
mod page;
mod rate;
mod refused_hosts;
mod rest;
mod serve;
mod standby;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::Method;
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_RANGE, CONTENT_TYPE, HeaderName, IF_MATCH, IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE, RANGE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{any, get, post};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::util::MapRequest;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

use self::addresses::{MCP, STREAMS, TOKEN_MCP};
#[cfg(fuzzing)]
pub use self::files::selected;
pub use self::metadata::resources;
use self::rate::Rate;
use self::refused_hosts::RefusedHosts;
pub use self::serve::serve;
pub use self::standby::standby;
use crate::access::Access;
use crate::audit::Audit;
use crate::body::Room;
use crate::config::{HttpConfig, OauthConfig};
use crate::login::Login;
use crate::mcp::transport::{MESSAGES, McpTransport};
use crate::oauth::Oauth;
use crate::principal::Principal;
use crate::services::Services;

/// What routes need.
#[derive(Clone, Debug)]
pub struct HttpState(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    rate: Rate,
    refused_hosts: RefusedHosts,
    /// Where large bodies are held.
    room: Room,
    /// Archives in the making.
    archives: Arc<Semaphore>,
    config: HttpConfig,
    oauth_config: OauthConfig,
    access: Access,
    audit: Audit,
    /// Callers whom others vouch for, if there are any.
    oauth: Option<Oauth>,
    /// Logs callers in, if it is switched on.
    login: Option<Login>,
    mcp: McpTransport,
    services: Services,
    sessions: rest::Sessions,
    /// The sandboxes of clients of E2B.
    sandboxes: dialects::Sandboxes,
    /// The programs of clients of LibreChat that wait for their tools.
    programs: dialects::Programs,
    /// Calls that have no answer yet.
    calls: TaskTracker,
    /// Ends the connections that would not end by themselves.
    stop: CancellationToken,
    started: Instant,
}

/// How callers are known, and where that is recorded.
#[derive(Debug)]
pub struct Callers {
    /// By tokens of the operator's.
    pub access: Access,
    /// By what others say of them, if they are asked.
    pub oauth: Option<Oauth>,
    /// By what was issued here in place of a token, if that is switched on.
    pub login: Option<Login>,
    /// What clients are told about that.
    pub oauth_config: OauthConfig,
    /// Who was let in, and who was not.
    pub audit: Audit,
}

impl HttpState {
    /// Holds the parts that the routes lead to. Each call is on `calls` until it has its answer, or until `stop`.
    pub fn new(
        config: HttpConfig,
        callers: Callers,
        mcp: McpTransport,
        services: Services,
        calls: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let Callers {
            access,
            oauth,
            login,
            oauth_config,
            audit,
        } = callers;
        Self(Arc::new(Shared {
            rate: Rate::new(config.rate_limit, access.clone()),
            refused_hosts: RefusedHosts::default(),
            room: mcp.room(),
            archives: Arc::new(Semaphore::new(rest::ARCHIVES)),
            config,
            oauth_config,
            access,
            audit,
            oauth,
            login,
            mcp,
            services,
            sessions: rest::Sessions::default(),
            sandboxes: dialects::Sandboxes::default(),
            programs: dialects::Programs::default(),
            calls,
            stop,
            started: Instant::now(),
        }))
    }

    /// Ends what has an end.
    pub async fn maintain(self) {
        let conversations = &self.0.services.conversations;
        tokio::join!(
            self.0.sandboxes.maintain(conversations),
            self.0.programs.maintain(),
        );
    }
}

impl HttpState {
    /// Whether a caller has no token any more that counts.
    fn has_left(&self, caller: &Principal) -> bool {
        let (oauth, login) = (self.0.oauth.as_ref(), self.0.login.as_ref());
        self.0.access.has_left(caller)
            || oauth.is_some_and(|oauth| oauth.has_left(caller))
            || login.is_some_and(|login| login.has_left(caller))
    }
}

/// All routes.
pub fn router(state: HttpState) -> Router {
    let mut with_token = Router::new()
        .route(MCP, any(mcp))
        .route(MESSAGES, post(messages));
    for path in STREAMS {
        with_token = with_token.route(path, get(open_stream));
    }
    if state.0.oauth.is_some() || state.0.login.is_some() {
        with_token = with_token.route(TOKEN_MCP, any(mcp));
    }
    let with_token = with_token
        .route_layer(from_fn_with_state(state.clone(), rate::limit))
        .route_layer(from_fn_with_state(state.clone(), bearer::require_token));
    let (mut rest, rest_for_all) = rest::routes(&state);
    if state.0.services.conversations.tally.is_on() {
        rest = rest.route_layer(from_fn_with_state(state.clone(), downloads::count));
    }
    let rest = rest
        .route_layer(from_fn_with_state(state.clone(), rate::limit_rest))
        .route_layer(from_fn_with_state(state.clone(), bearer::require_token));
    let for_operators = Router::new()
        .route("/metrics", get(metrics::show))
        .route_layer(from_fn_with_state(state.clone(), access::require_operator));
    let mut links = Router::new()
        .route("/files/{*path}", get(files::route))
        .route("/framed/{*path}", get(files::framed::route));
    if state.0.services.conversations.tally.is_on() {
        links = links.route_layer(from_fn_with_state(state.clone(), downloads::count));
    }
    let public = links
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/health", get(health::ready))
        .merge(log_in(&state));
    // The layer added last is the first that a request meets.
    let routes = with_token
        .merge(rest)
        .merge(rest_for_all)
        .merge(dialects::routes(&state))
        .merge(for_operators)
        .merge(admin::routes(&state))
        .merge(public)
        .merge(page::routes(&state))
        .fallback(addresses::no_such_route)
        .method_not_allowed_fallback(addresses::method_not_allowed)
        .layer(DefaultBodyLimit::disable())
        .layer(cors(&state.0.config))
        .layer(from_fn_with_state(
            state.clone(),
            access::require_known_host_and_origin,
        ))
        .layer(CatchPanicLayer::custom(health::panicked))
        .layer(from_fn_with_state(state.clone(), log_request::log_request))
        .with_state(state.clone());
    // Around all of them, since a layer meets a request after its route was chosen.
    let plain = move |request| addresses::plain(request, state.0.config.public_path());
    Router::new().fallback_service(MapRequest::new(routes, plain))
}

/// Where clients learn how to log in. Some do not send a token that they were given once they have found that, so the
/// address where they look first has nothing as long as there are such tokens.
fn log_in(state: &HttpState) -> Router<HttpState> {
    let mut routes = Router::new();
    if let Some(builtin) = &state.0.login {
        routes = login::routes(state, builtin.clone());
    } else if state.0.oauth_config.issuers.is_empty() {
        return routes;
    }
    for (address, _) in metadata::DOCUMENTS {
        routes = routes.route(address, get(metadata::show));
    }
    let config = &state.0.config;
    if config.api_token.is_none() && config.access_file.is_none() {
        routes = routes.route(metadata::WELL_KNOWN, get(metadata::show));
    }
    routes
}

/// The old transport: an event stream, and where its client posts.
async fn open_stream(State(state): State<HttpState>, request: Request<Body>) -> Response {
    state.0.mcp.open_stream(&request)
}

async fn messages(State(state): State<HttpState>, request: Request<Body>) -> Response {
    state.0.mcp.messages(request).await
}

async fn mcp(State(state): State<HttpState>, request: Request<Body>) -> Response {
    state.0.mcp.handle(request).await
}

/// Lets pages of the allowed origins call and read the headers that clients need.
fn cors(config: &HttpConfig) -> CorsLayer {
    let header = HeaderName::from_static;
    let origins = if config.allowed_origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        let allowed = config.allowed_origins.clone();
        AllowOrigin::predicate(move |origin, request| {
            metadata::is_at(request.uri.path())
                || origin
                    .to_str()
                    .is_ok_and(|origin| access::allows_origin(&allowed, origin))
        })
    };
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
        ])
        .allow_headers([
            AUTHORIZATION,
            CONTENT_TYPE,
            ACCEPT,
            IF_MATCH,
            IF_NONE_MATCH,
            IF_UNMODIFIED_SINCE,
            RANGE,
            header("mcp-session-id"),
            header("mcp-protocol-version"),
            header("mcp-method"),
            header("mcp-name"),
            header("last-event-id"),
        ])
        .expose_headers([
            header("mcp-session-id"),
            WWW_AUTHENTICATE,
            RETRY_AFTER,
            CONTENT_RANGE,
        ])
}
