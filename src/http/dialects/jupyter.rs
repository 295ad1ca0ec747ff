//! The kernel API of a Jupyter server, for front ends that run cells there: Open WebUI, AutoGen, `jupyter-kernel-client`.
//!
//! A kernel of these clients is a conversation of its own with the stateful kernel that it has here, which starts with
//! its first cell; below `/w/<name>`, kernels share the files of one conversation, and not their variables. Cells and
//! what they show go over a WebSocket.
//!
//! Sources: the [REST API](https://jupyter-server.readthedocs.io/en/latest/developers/rest-api.html), the
//! [messages](https://jupyter-client.readthedocs.io/en/stable/messaging.html) and the
//! [WebSocket protocols](https://jupyter-server.readthedocs.io/en/latest/developers/websocket-protocols.html).

mod bundle;
mod cell;
mod channels;
mod frames;
mod kernels;
mod message;

use std::sync::Arc;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Extension, Path, State};
use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use self::frames::V1;
use self::kernels::{Kernel, Kernels, Language};
use super::fields::Fields;
use super::guarded;
use crate::api::error::CallError;
use crate::audit::Origin;
use crate::http::HttpState;
use crate::http::rest::{ApiError, FromCaller};

/// Kernels with files of their own each, and those of a named workspace.
const PREFIXES: [&str; 2] = ["/jupyter", "/jupyter/w/{workspace}"];
/// How many bytes JSON may take for one of code.
const ESCAPED: usize = 6;
/// Bytes of a request beside its code.
const MARGIN: usize = 64 << 10;
/// The version of Jupyter Server whose contract this is.
const VERSION: &str = "2.14.0";

pub(super) fn routes(state: &HttpState) -> Router<HttpState> {
    let mut routes = Router::new();
    for prefix in PREFIXES {
        let at = |path: &str| format!("{prefix}/api{path}");
        routes = routes
            .route(&at(""), get(async || Json(json!({ "version": VERSION }))))
            .route(&at("/status"), get(status))
            .route(&at("/kernelspecs"), get(specs))
            .route(&at("/kernels"), get(list).post(create))
            .route(&at("/kernels/{kernel}"), get(describe).delete(delete))
            .route(&at("/kernels/{kernel}/restart"), post(restart))
            .route(&at("/kernels/{kernel}/interrupt"), post(interrupt))
            .route(&at("/kernels/{kernel}/channels"), get(connect));
    }
    guarded(state, failed, routes).layer(Extension(Arc::new(Kernels::default())))
}

/// A failure, as these clients show it.
fn failed(error: &CallError) -> Value {
    json!({ "message": error.message, "reason": null })
}

/// The parts of a path.
#[derive(Debug, Deserialize)]
struct Place {
    #[serde(default)]
    workspace: Option<String>,
    #[serde(default)]
    kernel: String,
}

/// What a client wants of a new kernel.
#[derive(Debug, Deserialize)]
struct Wish {
    /// One of the names in `kernelspecs`.
    #[serde(default)]
    name: Option<String>,
}

type Books = Extension<Arc<Kernels>>;

fn found(kernels: &Kernels, origin: &Origin, place: &Place) -> Result<Arc<Kernel>, ApiError> {
    kernels
        .find(&origin.caller, &place.kernel)
        .map_err(ApiError)
}

async fn status(Extension(kernels): Books, FromCaller(origin): FromCaller) -> Json<Value> {
    let theirs = kernels.of(&origin.caller);
    let connections: usize = theirs.iter().map(|kernel| kernel.connections()).sum();
    let last = theirs.iter().map(|kernel| kernel.last_activity()).max();
    Json(json!({
        "started": kernels.started(),
        "last_activity": last.unwrap_or_else(|| kernels.started()),
        "connections": connections,
        "kernels": theirs.len(),
    }))
}

async fn specs(State(state): State<HttpState>, FromCaller(origin): FromCaller) -> Json<Value> {
    let services = &state.0.services;
    let view = services.status.view_for(origin.caller.tenant());
    let specs = Language::ALL
        .into_iter()
        .filter(|language| {
            view.find(language.runner())
                .is_some_and(|runner| runner.kernel)
        })
        .map(|language| (language.name().to_owned(), language.spec()));
    let specs: serde_json::Map<_, _> = specs.collect();
    Json(json!({ "default": Language::Python.name(), "kernelspecs": specs }))
}

async fn list(Extension(kernels): Books, FromCaller(origin): FromCaller) -> Json<Value> {
    let theirs = kernels.of(&origin.caller);
    Json(theirs.iter().map(|kernel| kernel.model()).collect())
}

/// Nothing is started before the first cell comes.
async fn create(
    State(state): State<HttpState>,
    Extension(kernels): Books,
    FromCaller(origin): FromCaller,
    Path(place): Path<Place>,
    uri: Uri,
    Fields(wish): Fields<Wish>,
) -> Result<Response, ApiError> {
    let language = Language::named(wish.name.as_deref()).map_err(ApiError)?;
    let files = &state.0.services.files;
    let conversation = kernels::conversation(files, &origin.caller, place.workspace.as_deref())
        .map_err(ApiError)?;
    let is_shared = place.workspace.is_some();
    let kernel = kernels
        .add(&origin.caller, language, conversation, is_shared)
        .map_err(ApiError)?;
    let location = format!("{}/{}", uri.path().trim_end_matches('/'), kernel.id);
    let answer = (
        StatusCode::CREATED,
        [(LOCATION, location)],
        Json(kernel.model()),
    );
    Ok(answer.into_response())
}

async fn describe(
    Extension(kernels): Books,
    FromCaller(origin): FromCaller,
    Path(place): Path<Place>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(found(&kernels, &origin, &place)?.model()))
}

/// Ends a kernel, whatever it runs, and deletes the files that nobody else has.
async fn delete(
    State(state): State<HttpState>,
    Extension(kernels): Books,
    FromCaller(origin): FromCaller,
    Path(place): Path<Place>,
) -> Result<StatusCode, ApiError> {
    let kernel = found(&kernels, &origin, &place)?;
    kernel.close();
    let conversations = &state.0.services.conversations;
    if kernel.is_shared {
        conversations.end_kernels(&kernel.conversation, kernel.number());
    } else {
        // Only what is gone is forgotten: its client can ask again otherwise.
        conversations.delete(&origin, &kernel.conversation).await?;
    }
    kernels.remove(&kernel);
    Ok(StatusCode::NO_CONTENT)
}

async fn restart(
    State(state): State<HttpState>,
    Extension(kernels): Books,
    FromCaller(origin): FromCaller,
    Path(place): Path<Place>,
) -> Result<Json<Value>, ApiError> {
    let kernel = found(&kernels, &origin, &place)?;
    kernels.restart(&state.0.services.conversations, &kernel);
    Ok(Json(kernel.model()))
}

async fn interrupt(
    Extension(kernels): Books,
    FromCaller(origin): FromCaller,
    Path(place): Path<Place>,
) -> Result<StatusCode, ApiError> {
    found(&kernels, &origin, &place)?.interrupt();
    Ok(StatusCode::NO_CONTENT)
}

async fn connect(
    State(state): State<HttpState>,
    Extension(kernels): Books,
    FromCaller(origin): FromCaller,
    Path(place): Path<Place>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, ApiError> {
    let kernel = found(&kernels, &origin, &place)?;
    let connection = kernels.connect(kernel).map_err(ApiError)?;
    let max_request = state.0.services.limits.code * ESCAPED + MARGIN;
    let upgrade = upgrade.protocols([V1]).max_message_size(max_request);
    Ok(upgrade.on_upgrade(async move |socket| {
        let _unanswered = state.0.calls.token();
        channels::serve(socket, state, kernels, connection, origin).await;
    }))
}
