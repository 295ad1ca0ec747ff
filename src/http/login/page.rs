//! The page on which people let a client in: they paste their token.
//!
//! It is plain markup without scripts. Its form is taken only from itself: it has a number that a cookie has too, which
//! no other site can make a browser send.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use axum::Extension;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, LOCATION, REFERRER_POLICY,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use subtle::ConstantTimeEq as _;
use tracing::info;

use super::error::{description, word};
use super::fields::Fields;
use super::{AUTHORIZE, Answer, whole};
use crate::audit::{Event, Subject};
use crate::http::{HttpState, page};
use crate::login::{self, Asked, Login, LoginError, NotLetIn, RedirectUri, Refused};
use crate::mcp::transport::TooMany;
use crate::scope::{Scope, Scopes};

const FORM: &str = include_str!("../../../static/login.html");
const REFUSAL: &str = include_str!("../../../static/login-refused.html");
const COOKIE_NAME: &str = "mcs_login";
/// How long a form may be filled in, in seconds.
const FORM_LIFE: u32 = 1800;

/// Why a form has to be filled in again.
enum Again {
    /// It did not come from this page, or too late.
    Nonce,
    Refused(Refused),
}

pub(super) async fn show(
    State(state): State<HttpState>,
    Extension(login): Extension<Login>,
    request: Request,
) -> Response {
    match asked(&login, request.uri()).await {
        Ok(asked) => form(&state, &asked, None),
        Err(response) => response,
    }
}

pub(super) async fn submit(
    State(state): State<HttpState>,
    Extension(login): Extension<Login>,
    request: Request,
) -> Answer {
    let asked = match asked(&login, request.uri()).await {
        Ok(asked) => asked,
        Err(response) => return Ok(response),
    };
    let (cookie, peer) = (nonce_of(request.headers()), peer(&request));
    let fields = Fields::parse(&whole(&state, request).await?);
    let nonce = fields.one("nonce")?.unwrap_or_default();
    let is_ours = !nonce.is_empty() && bool::from(nonce.as_bytes().ct_eq(cookie.as_bytes()));
    if !is_ours {
        return Ok(form(&state, &asked, Some(&Again::Nonce)));
    }
    let token = fields.one("token")?.unwrap_or_default().trim();
    match login.let_in(&asked, token) {
        Ok((holder, code)) => {
            let (client, host) = (asked.client.name(), asked.redirect.host());
            info!(?client, host, "somebody let a client in");
            state.0.audit.record(|| Event::LoginGranted {
                subject: Subject::of(&holder),
                client: client.to_owned(),
                redirect_host: host.to_owned(),
            });
            let answers = [("code", code.as_str())];
            Ok(sent(
                &login,
                &asked.redirect,
                asked.state.as_deref(),
                &answers,
            ))
        }
        Err(refused) => {
            info!(?peer, reason = %refused, "somebody did not let a client in");
            let route = || format!("POST {AUTHORIZE}");
            state.0.audit.denied(peer, route, refused.reason());
            Ok(form(&state, &asked, Some(&Again::Refused(refused))))
        }
    }
}

/// What the client asks, or the answer if something is wrong with it.
async fn asked(login: &Login, uri: &Uri) -> Result<Asked, Response> {
    let query = uri.query().unwrap_or_default();
    let fields = Fields::parse(query.as_bytes());
    let read = read(&fields).map_err(|error| refusal(&error))?;
    login
        .asked(&read)
        .await
        .map_err(|not_let_in| match not_let_in {
            NotLetIn::Told(error) => refusal(&error),
            NotLetIn::SentBack {
                error,
                redirect,
                state,
            } => {
                let message = description(&error.to_string());
                let answers = [("error", word(&error).0), ("error_description", &message)];
                sent(login, &redirect, state.as_deref(), &answers)
            }
        })
}

fn read(fields: &Fields) -> Result<login::Request, LoginError> {
    let text = |name| {
        fields
            .one(name)
            .map(|text| text.unwrap_or_default().to_owned())
    };
    Ok(login::Request {
        client_id: text("client_id")?,
        redirect_uri: text("redirect_uri")?,
        response_type: text("response_type")?,
        state: fields.one("state")?.map(str::to_owned),
        code_challenge: text("code_challenge")?,
        code_challenge_method: text("code_challenge_method")?,
        resource: fields.all("resource"),
        scope: text("scope")?,
    })
}

/// Sends the browser to the client. Only this status makes every browser forget what was posted (RFC 9700, section
/// 4.12).
fn sent(
    login: &Login,
    redirect: &RedirectUri,
    state: Option<&str>,
    answers: &[(&str, &str)],
) -> Response {
    let mut answers = answers.to_vec();
    answers.extend(state.map(|state| ("state", state)));
    answers.push(("iss", login.issuer()));
    let headers = [
        (LOCATION, redirect.with(&answers)),
        (CACHE_CONTROL, "no-store".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

fn form(state: &HttpState, asked: &Asked, again: Option<&Again>) -> Response {
    let nonce = hex::encode(rand::random::<[u8; 16]>());
    let (status, told) = match again {
        None => (StatusCode::OK, String::new()),
        Some(Again::Nonce) => (
            StatusCode::FORBIDDEN,
            "This form was not sent by this page, or too late: please try again.".to_owned(),
        ),
        Some(Again::Refused(Refused::Scopes)) => (
            StatusCode::FORBIDDEN,
            "This token is too narrow: it does not let you do what the application asks for."
                .to_owned(),
        ),
        Some(Again::Refused(_)) => (
            StatusCode::FORBIDDEN,
            "This token is not known here, or has expired.".to_owned(),
        ),
    };
    let place = if asked.client.is_page() {
        "where you came from"
    } else if asked.redirect.is_local() {
        "a program on your own computer"
    } else {
        "an application on the internet"
    };
    let body = filled(
        FORM,
        &[
            ("client", asked.client.name()),
            ("acts", &acts(asked.scopes)),
            ("host", asked.redirect.host()),
            ("place", place),
            ("told", &told),
            ("nonce", &nonce),
        ],
    );
    let cookie = cookie(state, &nonce);
    let response = shown(status, &format!("'self' {}", asked.redirect.source()), body);
    ([(SET_COOKIE, cookie)], response).into_response()
}

/// What a client can do with scopes, in words for people.
fn acts(scopes: Scopes) -> String {
    let acts = scopes.iter().map(|scope| match scope {
        Scope::Run => "run programs",
        Scope::Files => "read, change and delete files",
        Scope::Install => "install packages",
        Scope::Network => "give programs the network",
    });
    acts.collect::<Vec<_>>().join("; ")
}

fn refusal(error: &LoginError) -> Response {
    told(StatusCode::BAD_REQUEST, &error.to_string())
}

pub(super) fn too_many(excess: TooMany) -> Response {
    told(StatusCode::TOO_MANY_REQUESTS, &excess.to_string())
}

fn told(status: StatusCode, text: &str) -> Response {
    shown(status, "'none'", filled(REFUSAL, &[("told", text)]))
}

/// A page that may be in no frame, has nothing but styles of ours, and whose form leads to `forms` only.
fn shown(status: StatusCode, forms: &str, body: String) -> Response {
    let policy = format!(
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action {forms}; base-uri 'none'; frame-ancestors \
         'none'"
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CONTENT_SECURITY_POLICY, policy),
        (X_FRAME_OPTIONS, "DENY".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        // With none at all, browsers hide the origin of the form from us too.
        (REFERRER_POLICY, "same-origin".to_owned()),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    (status, headers, body).into_response()
}

/// A page with texts in its places.
fn filled(page: &str, texts: &[(&str, &str)]) -> String {
    let page = page.replace("{{assets}}", &page::folder());
    texts.iter().fold(page, |page, (name, text)| {
        page.replace(&format!("{{{{{name}}}}}"), &escaped(text))
    })
}

/// A text without what means something in markup, or is a place for another one.
pub(in crate::http) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for sign in text.chars() {
        if "&<>\"'{}".contains(sign) {
            // Writing to a string never fails.
            let _ = write!(escaped, "&#{};", u32::from(sign));
        } else {
            escaped.push(sign);
        }
    }
    escaped
}

/// Other sites cannot make a browser send it.
fn cookie(state: &HttpState, nonce: &str) -> String {
    let config = &state.0.config;
    let secure = if config.public_base_url.starts_with("https:") {
        "; Secure"
    } else {
        ""
    };
    let path = config.public_path();
    format!(
        "{COOKIE_NAME}={nonce}; Path={path}{AUTHORIZE}; Max-Age={FORM_LIFE}; HttpOnly; SameSite=Strict{secure}"
    )
}

fn nonce_of(headers: &HeaderMap) -> String {
    let cookies = headers.get_all(COOKIE).into_iter();
    let cookies = cookies.filter_map(|cookies| cookies.to_str().ok());
    let mut cookies = cookies.flat_map(|cookies| cookies.split(';'));
    let ours = |cookie: &str| {
        let (name, value) = cookie.trim().split_once('=')?;
        (name == COOKIE_NAME).then(|| value.to_owned())
    };
    cookies.find_map(ours).unwrap_or_default()
}

/// The other end of the connection, which can be a proxy.
fn peer(request: &Request) -> Option<IpAddr> {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    peer.map(|peer| peer.0.ip())
}
