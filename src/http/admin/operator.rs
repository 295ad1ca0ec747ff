//! Lets the operator in, by `ADMIN_TOKEN`, and nobody else.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::header::{USER_AGENT, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use secrecy::ExposeSecret as _;
use subtle::ConstantTimeEq as _;

use crate::api::code::Code;
use crate::audit::{Client, Operator};
use crate::http::HttpState;
use crate::http::access::{note_denied, way};
use crate::http::bearer::bearer;
use crate::http::rest::ApiError;

/// Lets through requests with the token.
pub(super) async fn require_token(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let given = bearer(request.headers()).unwrap_or_default();
    let is_right = state.0.config.admin_token.as_ref().is_some_and(|token| {
        let token = token.expose_secret().as_bytes();
        bool::from(given.as_bytes().ct_eq(token))
    });
    // One that ACCESS_FILE has got since the start belongs to a caller.
    if is_right
        && state
            .0
            .access
            .refuse_token(&given.into(), "ADMIN_TOKEN")
            .is_ok()
    {
        return next.run(request).await;
    }
    let reason = if given.is_empty() {
        "no_token"
    } else {
        "unknown_token"
    };
    note_denied(&state, &request, reason);
    let message = "the bearer token is missing or wrong: send the header `Authorization: Bearer <ADMIN_TOKEN>`";
    let mut response = ApiError::new(Code::Unauthorized, message).into_response();
    let challenge = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    response
}

/// The operator, as the audit log has it.
pub(super) struct FromOperator(pub(super) Operator);

impl FromRequestParts<HttpState> for FromOperator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &HttpState) -> Result<Self, ApiError> {
        let agent = parts.headers.get(USER_AGENT);
        let agent = agent.and_then(|agent| agent.to_str().ok());
        Ok(Self(Operator {
            via: way(&parts.method, &parts.extensions).into(),
            client: agent.and_then(Client::of_user_agent),
            address: address(&parts.extensions),
        }))
    }
}

/// The other end of the connection, which can be a proxy.
fn address(extensions: &Extensions) -> Option<IpAddr> {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map(|peer| peer.ip())
}
