//! The routes of the authorization server, where the operator has switched it on: what clients read and call, beside
//! the page for people.

mod error;
mod fields;
mod page;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, RETRY_AFTER};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde_json::{Value, json};
use tracing::info;

use self::error::OauthFailure;
use self::fields::Fields;
pub(super) use self::page::escaped;
use super::{HttpState, rate};
use crate::audit::{Event, Subject};
use crate::body::BodyError;
use crate::login::{Ended, Exchange, Login, LoginError, Refresh, Registration, SCOPE, Tokens};
use crate::mcp::transport::TooMany;
use crate::scope::Scopes;

/// Before the path of the public address, if it has one (RFC 8414, section 3.1).
pub(super) const METADATA: &str = "/.well-known/oauth-authorization-server";
pub(super) const AUTHORIZE: &str = "/oauth/authorize";
pub(super) const TOKEN: &str = "/oauth/token";
pub(super) const REGISTER: &str = "/oauth/register";
pub(super) const REVOKE: &str = "/oauth/revoke";
/// All of them.
pub(super) const ADDRESSES: &[&str] = &[METADATA, AUTHORIZE, TOKEN, REGISTER, REVOKE];

/// Most bytes of what clients and forms send.
const MAX_BODY: usize = 64 << 10;

/// What handlers answer.
type Answer = Result<Response, OauthFailure>;

pub(super) fn routes(state: &HttpState, login: Login) -> Router<HttpState> {
    Router::new()
        .route(AUTHORIZE, get(page::show).post(page::submit))
        .route(REGISTER, post(register))
        .route_layer(from_fn_with_state(state.clone(), rate::limit_login))
        .merge(of_clients(state))
        // It is small, and the same for all.
        .route(METADATA, get(metadata))
        .layer(Extension(login))
}

/// Where clients bring what they were given before.
fn of_clients(state: &HttpState) -> Router<HttpState> {
    Router::new()
        .route(TOKEN, post(token))
        .route(REVOKE, post(revoke))
        .route_layer(from_fn_with_state(state.clone(), rate::limit_failures))
}

/// What clients read first (RFC 8414).
async fn metadata(Extension(login): Extension<Login>) -> Response {
    let at = |path: &str| format!("{}{path}", login.issuer());
    let all = Scopes::ALL.as_words();
    let scopes: Vec<_> = [SCOPE].into_iter().chain(all.split(' ')).collect();
    let document = json!({
        "issuer": login.issuer(),
        "authorization_endpoint": at(AUTHORIZE),
        "token_endpoint": at(TOKEN),
        "registration_endpoint": at(REGISTER),
        "revocation_endpoint": at(REVOKE),
        "scopes_supported": scopes,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": true,
        "authorization_response_iss_parameter_supported": true,
    });
    let cache = [(CACHE_CONTROL, "public, max-age=3600")];
    (cache, Json(document)).into_response()
}

async fn register(
    State(state): State<HttpState>,
    Extension(login): Extension<Login>,
    request: Request,
) -> Answer {
    let body = whole(&state, request).await?;
    let registration: Registration = serde_json::from_slice(&body)
        .map_err(|error| OauthFailure::Metadata(format!("the body does not fit: {error}")))?;
    let client = login.register(&registration)?;
    let uris: Vec<_> = client.redirect_uris().collect();
    let registered = json!({
        "client_id": client.id(),
        "client_name": client.name(),
        "redirect_uris": uris,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": SCOPE,
    });
    Ok(fresh(StatusCode::CREATED, registered))
}

async fn token(
    State(state): State<HttpState>,
    Extension(login): Extension<Login>,
    request: Request,
) -> Answer {
    let fields = Fields::parse(&whole(&state, request).await?);
    let tokens = tokens(&login, &fields).await.inspect_err(|error| {
        if let LoginError::Replayed {
            ended: Some(ended), ..
        } = error
        {
            note_end(&state, ended);
        }
    })?;
    Ok(fresh(StatusCode::OK, json!(tokens)))
}

async fn tokens(login: &Login, fields: &Fields) -> Result<Tokens, LoginError> {
    let resource = fields.all("resource");
    match fields.required("grant_type")? {
        "authorization_code" => {
            let exchange = Exchange {
                client_id: fields.required("client_id")?.to_owned(),
                code: fields.required("code")?.to_owned(),
                redirect_uri: fields.required("redirect_uri")?.to_owned(),
                verifier: fields.required("code_verifier")?.to_owned(),
                resource,
            };
            login.exchange(exchange).await
        }
        "refresh_token" => {
            let refresh = Refresh {
                client_id: fields.required("client_id")?.to_owned(),
                token: fields.required("refresh_token")?.to_owned(),
                resource,
            };
            login.refresh(refresh).await
        }
        _ => Err(LoginError::GrantType),
    }
}

/// Ends what a token was made of (RFC 7009). Whoever has it may do so, and a token that is none needs no end.
async fn revoke(
    State(state): State<HttpState>,
    Extension(login): Extension<Login>,
    request: Request,
) -> Answer {
    let fields = Fields::parse(&whole(&state, request).await?);
    let token = fields.required("token")?.to_owned();
    if let Some(ended) = login.revoke(token).await? {
        info!("revoked a login");
        note_end(&state, &ended);
    }
    Ok(([(CACHE_CONTROL, "no-store")], StatusCode::OK).into_response())
}

/// Records that what a client was let in for is over.
fn note_end(state: &HttpState, ended: &Ended) {
    state.0.audit.record(|| Event::LoginEnded {
        subject: ended.holder.as_ref().map(Subject::of),
        reason: ended.why.into_str(),
    });
}

/// The answer to whoever sends too much to one of these addresses, in the form of what is there.
pub(super) fn too_many(path: &str, excess: TooMany) -> Response {
    let failure = if path == AUTHORIZE {
        page::too_many(excess)
    } else {
        OauthFailure::TooMany(excess).into_response()
    };
    ([(RETRY_AFTER, excess.seconds.to_string())], failure).into_response()
}

async fn whole(state: &HttpState, request: Request<Body>) -> Result<Vec<u8>, OauthFailure> {
    let (parts, body) = request.into_parts();
    let patience = state.0.config.patience.body;
    let read = state.0.room.read(&parts.headers, body, MAX_BODY, patience);
    let whole = read.await.map_err(|error| {
        let message = match error {
            BodyError::TooLarge => format!("the body has more than {MAX_BODY} bytes"),
            _ => "the body did not come".to_owned(),
        };
        LoginError::Request(message)
    })?;
    Ok(whole.bytes.to_vec())
}

/// An answer that nobody keeps.
fn fresh(status: StatusCode, body: Value) -> Response {
    (status, [(CACHE_CONTROL, "no-store")], Json(body)).into_response()
}
