//! The REST interface: programs, sessions and files over plain HTTP, for clients that do not speak MCP.
//!
//! It calls the same use cases as the tools. The documentation and the routes come from the same declarations: the
//! document is at `/api/v1/openapi.json`, and `/docs` is a page to try it.

mod archive;
mod conversation_files;
mod docs;
mod envelope;
mod error;
mod events;
mod execute;
mod extract;
mod health;
mod me;
mod one_shot;
mod sessions;
mod variables;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get};
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::archive::AT_A_TIME as ARCHIVES;
pub(super) use self::error::ApiError;
pub(super) use self::extract::{FromCaller, Segments, WholeBody};
pub(super) use self::sessions::Sessions;
use super::HttpState;
use crate::api::code::Code;
use crate::scope::{Forbidden, Rights, Scope, Scopes};

/// The name of the bearer token in the document.
const TOKEN: &str = "token";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "mcp-code-sandbox",
        description = "Runs programs in isolated containers and keeps the files of conversations. A session of this \
            interface and a conversation of the MCP tools are the same thing under the same id."
    ),
    modifiers(&Token),
    security(("token" = [])),
    tags(
        (name = "runs", description = "Programs and the sessions that they run in"),
        (name = "files", description = "Files of a session, which programs see in /data"),
        (name = "one-shot", description = "Python with one answer and no session, as older servers have it"),
        (name = "server", description = "The server itself")
    )
)]
struct Api;

struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut Document) {
        let token = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "MCP_API_TOKEN of the server, a token of its ACCESS_FILE, or an access token of its OAUTH_ISSUER",
            ))
            .build();
        document
            .components
            .get_or_insert_default()
            .add_security_scheme(TOKEN, SecurityScheme::Http(token));
    }
}

/// The routes that ask for the token, with what the document says about them: each in the group of the scope that it
/// needs. Whoever has a token may know what it is good for.
fn guarded() -> OpenApiRouter<HttpState> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(me::show))
        .merge(in_scope(Scope::Run, runs()))
        .merge(in_scope(Scope::Files, files()))
        .merge(in_scope(Scope::Install, installs()))
}

fn runs() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new()
        .routes(routes!(execute::execute))
        .routes(routes!(execute::execute_sync))
        .routes(routes!(sessions::list, sessions::single::make))
        .routes(routes!(sessions::single::show))
        .routes(routes!(sessions::single::interrupt))
        .routes(routes!(one_shot::execute))
}

fn files() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new()
        .routes(routes!(
            conversation_files::list,
            conversation_files::upload_form
        ))
        .routes(routes!(
            conversation_files::download,
            conversation_files::upload,
            conversation_files::delete,
            conversation_files::rename
        ))
        .routes(routes!(archive::download))
        .routes(routes!(sessions::end))
}

fn installs() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(one_shot::install))
}

/// Routes for those whose token has a scope.
fn in_scope(scope: Scope, routes: OpenApiRouter<HttpState>) -> OpenApiRouter<HttpState> {
    routes.route_layer(from_fn_with_state(Scopes::of(scope), require))
}

/// Lets those through whose token has these scopes.
pub(super) async fn require(
    State(needed): State<Scopes>,
    request: Request,
    next: Next,
) -> Response {
    let Some(rights) = request.extensions().get::<Rights>() else {
        let message = "the server does not know who calls";
        return ApiError::new(Code::Internal, message).into_response();
    };
    match rights.check(needed) {
        Ok(()) => next.run(request).await,
        Err(forbidden) => refusal(forbidden),
    }
}

/// The answer for a caller whose token is not for what they ask for.
fn refusal(forbidden: Forbidden) -> Response {
    let mut response = ApiError(forbidden.into()).into_response();
    response.extensions_mut().insert(forbidden);
    response
}

/// The routes that anybody may call.
fn open() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(health::show))
}

/// Routes that need the token, and routes for everybody, among them the document of both.
pub(super) fn routes(state: &HttpState) -> (Router<HttpState>, Router<HttpState>) {
    let (guarded, mut document) = guarded().split_for_parts();
    let (open, more) = open().split_for_parts();
    document.merge(more);
    let document = docs::serialized(document, state);
    let open = open
        .route(docs::DOCUMENT, show(document))
        .merge(docs::routes());
    (guarded, open)
}

fn show(document: String) -> MethodRouter<HttpState> {
    let document = Bytes::from(document);
    get(async move || docs::json(document.clone()))
}
