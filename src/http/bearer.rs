//! Who calls: whose token a request carries, or whom Cloudflare Access says that it comes from; and how others are told
//! what is missing.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tracing::info;

use super::HttpState;
use super::access::{is_from_a_named_page, note_denied};
use super::addresses::TOKEN_MCP;
use super::entrance::{Entrance, Way};
use super::metadata::{self, Challenge};
use super::rate::network;
use super::rest::ApiError;
use crate::access::Denied;
use crate::api::code::Code;
use crate::login::{Login, Refused};
use crate::oauth::{Flaw, Refusal};
use crate::principal::Tenant;
use crate::scope::Forbidden;

/// Where Cloudflare's tunnel says who calls.
const ASSERTION: HeaderName = HeaderName::from_static("cf-access-jwt-assertion");

/// Why a request is not let through.
enum Unknown {
    /// No token came.
    Missing,
    /// It is none of ours, and there are no others.
    Token(Denied),
    /// It is none of ours, and counts for nothing elsewhere.
    Refused(Refusal),
    /// A page calls for somebody who has logged in, and may not.
    Page,
    /// It has the form of those that are issued here, and counts for nothing.
    LoggedOut(Refused),
}

impl Unknown {
    /// A word for it.
    const fn reason(&self) -> &'static str {
        match self {
            Self::Missing => "no_token",
            Self::Token(Denied::Unknown) => "unknown_token",
            Self::Token(Denied::Expired(_)) => "expired_token",
            Self::LoggedOut(_) | Self::Refused(Refusal::Invalid(_)) => "invalid_token",
            Self::Refused(Refusal::Assertion(_)) => "invalid_assertion",
            Self::Refused(Refusal::Scope { .. }) => "insufficient_scope",
            Self::Refused(Refusal::NotAllowed(_)) => "not_allowed",
            Self::Refused(Refusal::Unavailable { .. }) => "auth_unavailable",
            Self::Page => "origin_not_allowed",
        }
    }
}

/// Lets through requests of known callers. Where clients look for a place to log in, the others are told one, and so
/// are those who could do more after another login.
pub(super) async fn require_token(
    State(state): State<HttpState>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_named = is_from_a_named_page(&state, &request);
    let from = network(request.extensions());
    match caller(&state, request.headers(), from, is_named).await {
        Ok(mut entrance) => {
            state.0.audit.let_in(&entrance.caller);
            let path = request.uri().path().to_owned();
            if path == TOKEN_MCP {
                // Its clients are not to log in.
                entrance.rights = entrance.rights.without_login();
            }
            request.extensions_mut().insert(entrance.caller.clone());
            request.extensions_mut().insert(entrance.rights);
            request.extensions_mut().insert(entrance);
            let mut response = next.run(request).await;
            let forbidden = response.extensions().get::<Forbidden>().copied();
            if let Some(forbidden) = forbidden.filter(|forbidden| forbidden.by_login) {
                let challenge = Challenge::at(&state, &path).asking_for(forbidden.to_ask_for());
                let header = challenge.with_error("insufficient_scope", &forbidden.to_string());
                add_challenge(&mut response, &header);
            }
            response
        }
        Err(unknown) => {
            note_denied(&state, &request, unknown.reason());
            let challenge = Challenge::at(&state, request.uri().path());
            refused(&state, &unknown, &challenge)
        }
    }
}

/// Who calls. An assertion comes first: whoever is behind Cloudflare Access is known by it, whatever else is sent. It is
/// made of a cookie, which browsers send for every page, so the page has to be one that `is_named`.
async fn caller(
    state: &HttpState,
    headers: &HeaderMap,
    from: IpAddr,
    is_named: bool,
) -> Result<Entrance, Unknown> {
    let oauth = state.0.oauth.as_ref();
    if let Some(oauth) = oauth.filter(|oauth| oauth.takes_assertions())
        && let Some(assertion) = headers.get(ASSERTION)
    {
        if !is_named {
            return Err(Unknown::Page);
        }
        let unreadable = |_| Unknown::Refused(Refusal::Assertion(Flaw::Opaque));
        let assertion = assertion.to_str().map_err(unreadable)?;
        let known = oauth.asserted(assertion).await.map_err(Unknown::Refused)?;
        return Ok(Entrance::known(Way::Cloudflare, known));
    }
    let given = bearer(headers).unwrap_or_default();
    if let Some(login) = state.0.login.as_ref().filter(|_| Login::has_form(given)) {
        let caller = login.caller(given).map_err(Unknown::LoggedOut)?;
        return Ok(Entrance::by_login(caller, login.expiry(given)));
    }
    match (state.0.access.let_in(given), oauth) {
        (Ok(holder), _) => Ok(Entrance::by_token(holder)),
        (Err(Denied::Unknown), _) if given.is_empty() => Err(Unknown::Missing),
        (Err(Denied::Unknown), Some(oauth)) if oauth.has_issuers() => {
            let known = oauth.caller(given, from).await;
            let known = known.map_err(Unknown::Refused)?;
            Ok(Entrance::known(Way::Issuer, known))
        }
        (Err(denied), _) => Err(Unknown::Token(denied)),
    }
}

/// Whether clients can get a token by themselves.
fn can_log_in(state: &HttpState) -> bool {
    state.0.oauth.is_some() || state.0.login.is_some()
}

/// What a caller is told who is not let through. A known one gets no challenge: to log in again would change nothing.
fn refused(state: &HttpState, unknown: &Unknown, challenge: &Challenge) -> Response {
    let (code, message) = match unknown {
        Unknown::Missing if can_log_in(state) => (Code::Unauthorized, missing(state)),
        Unknown::Missing => (Code::Unauthorized, ours(state, &Denied::Unknown)),
        Unknown::Token(denied) => (Code::Unauthorized, ours(state, denied)),
        Unknown::LoggedOut(refused) => {
            info!(reason = %refused, "refused an access token");
            (Code::Unauthorized, refused.to_string())
        }
        Unknown::Page => {
            let message = "pages of that Origin may not call for whoever is logged in: the operator can add it to ALLOWED_ORIGINS by its name";
            (Code::OriginNotAllowed, message.to_owned())
        }
        Unknown::Refused(refusal) => {
            info!(reason = %refusal, "refused an access token");
            let code = match refusal {
                Refusal::Invalid(_) | Refusal::Assertion(_) => Code::Unauthorized,
                Refusal::Scope { .. } => Code::InsufficientScope,
                Refusal::NotAllowed(_) => Code::NotAllowed,
                Refusal::Unavailable { .. } => Code::AuthUnavailable,
            };
            (code, refusal.to_string())
        }
    };
    let error = match code {
        Code::Unauthorized if matches!(unknown, Unknown::Missing) => Some(challenge.plain()),
        Code::Unauthorized => Some(challenge.with_error("invalid_token", &message)),
        Code::InsufficientScope => Some(challenge.with_error("insufficient_scope", &message)),
        _ => None,
    };
    let mut response = ApiError::new(code, message).into_response();
    if let Some(header) = error {
        add_challenge(&mut response, &header);
    }
    response
}

fn add_challenge(response: &mut Response, challenge: &str) {
    if let Ok(header) = HeaderValue::from_str(challenge) {
        response.headers_mut().insert(WWW_AUTHENTICATE, header);
    }
}

fn missing(state: &HttpState) -> String {
    let issuers = metadata::issuers(state);
    if issuers.is_empty() {
        return "the request did not come through Cloudflare Access: call this server by its public address".to_owned();
    }
    format!(
        "the access token is missing: log in at {}, and send the header `Authorization: Bearer <access token>`",
        issuers.join(" or ")
    )
}

/// Why a token is none of ours, and what to do.
fn ours(state: &HttpState, denied: &Denied) -> String {
    let advice = match denied {
        Denied::Unknown if state.0.config.access_file.is_none() => {
            "send the header `Authorization: Bearer <MCP_API_TOKEN>`"
        }
        Denied::Unknown => "send the header `Authorization: Bearer <token>`",
        Denied::Expired(_) => {
            "the operator can make another one of this name with `mcp-code-sandbox token new`"
        }
    };
    format!("{denied}: {advice}")
}

/// Whether a request carries a token of the operator's own tenant, who may know how busy the server is. Nobody whom an
/// issuer vouches for is the operator, whatever tenant they belong to: who may have such a token is up to others.
pub(super) fn is_of_the_operator(state: &HttpState, headers: &HeaderMap) -> bool {
    let given = bearer(headers).unwrap_or_default();
    let caller = state.0.access.caller(given);
    caller.is_ok_and(|caller| *caller.tenant() == Tenant::Default)
}

/// The token of the `Authorization` header. The scheme's name is compared without case (RFC 9110, section 11.1).
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
