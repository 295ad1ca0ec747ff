//! Base addresses for clients that were made for other code interpreters (`DIALECTS`).
//!
//! Each dialect is an adapter in a module of its own: it reads what its clients send, calls the use cases that REST and
//! the tools call, and answers as its clients expect. Who may call, how often and for what is decided as for REST.

mod bash;
mod credentials;
mod dify;
mod e2b;
mod failure;
mod fields;
mod jupyter;
mod librechat;
mod python_tool;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};

pub(super) use self::e2b::Sandboxes;
use self::failure::Shape;
pub(super) use self::librechat::Programs;
use super::HttpState;
use super::bearer;
use super::rate;
use super::rest;
use crate::config::Dialect;
use crate::scope::{Scope, Scopes};

/// The routes of the dialects that are switched on.
pub(super) fn routes(state: &HttpState) -> Router<HttpState> {
    let dialects = state.0.config.dialects.iter();
    dialects.fold(Router::new(), |routes, dialect| match dialect {
        Dialect::Dify => routes.merge(dify::routes(state)),
        Dialect::E2b => routes.merge(e2b::routes(state)),
        Dialect::Jupyter => routes.merge(jupyter::routes(state)),
        Dialect::Librechat => routes.merge(librechat::routes(state)),
        Dialect::PythonTool => routes.merge(python_tool::routes(state)),
    })
}

/// Routes for those who may run programs, with their token in any place that clients have for one.
fn guarded(state: &HttpState, shape: Shape, routes: Router<HttpState>) -> Router<HttpState> {
    let state = || state.clone();
    // The layer added last is the first that a request meets.
    routes
        .route_layer(from_fn_with_state(Scopes::of(Scope::Run), rest::require))
        .route_layer(from_fn_with_state(state(), rate::limit_rest))
        .route_layer(from_fn_with_state(state(), bearer::require_token))
        .route_layer(from_fn(credentials::carry_as_bearer))
        .route_layer(from_fn_with_state(shape, failure::shape))
}
