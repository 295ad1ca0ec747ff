//! People at the stub: whoever comes is logged in as anna at once, and their client gets tokens (RFC 6749, RFC 7636).

use axum::Json;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::header::{ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_ORIGIN, LOCATION};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use url::{Url, form_urlencoded};

use super::{Stub, encoded, now, signed};

/// How the stub deals with those who log in, and what came.
#[derive(Default)]
pub(crate) struct Logins {
    /// Whether pages of other origins may ask it.
    pub(crate) allows_pages: bool,
    /// Whether clients may register.
    pub(crate) registers: bool,
    /// Whose answer it says that it is, if not its own.
    pub(crate) answers_as: Option<String>,
    /// What was asked of it, with the path.
    pub(crate) came: Vec<(&'static str, Value)>,
}

pub(super) fn routes() -> Router<Stub> {
    Router::new()
        .route("/authorize", get(authorize))
        .route("/register", post(register))
        .route("/token", post(token))
        .route("/revoke", post(revoke))
}

/// What the stub says of these addresses.
pub(super) fn metadata((url, answers): &Stub) -> Value {
    let mut metadata = json!({
        "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
        "revocation_endpoint": format!("{url}/revoke"),
    });
    if answers.lock().logins.registers {
        metadata["registration_endpoint"] = format!("{url}/register").into();
    }
    metadata
}

/// Lets pages read answers, if they may.
pub(super) async fn for_pages(
    State((_, answers)): State<Stub>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match *request.method() {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        _ => next.run(request).await,
    };
    if answers.lock().logins.allows_pages {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    }
    response
}

fn object(encoded: &[u8]) -> Value {
    let fields = form_urlencoded::parse(encoded).into_owned();
    let fields = fields.map(|(name, value)| (name, value.into()));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// The code is the challenge itself, so that nothing has to be remembered.
async fn authorize(State((url, answers)): State<Stub>, request: Request) -> Response {
    let asked = object(request.uri().query().unwrap_or_default().as_bytes());
    let text = |name: &str| asked[name].as_str().unwrap().to_owned();
    let mut target = Url::parse(&text("redirect_uri")).unwrap();
    let mut answers = answers.lock();
    let iss = answers.logins.answers_as.clone().unwrap_or(url);
    target
        .query_pairs_mut()
        .append_pair("code", &text("code_challenge"))
        .append_pair("state", &text("state"))
        .append_pair("iss", &iss);
    answers.logins.came.push(("authorize", asked));
    (StatusCode::SEE_OTHER, [(LOCATION, target.to_string())]).into_response()
}

async fn register(State((_, answers)): State<Stub>, Json(client): Json<Value>) -> Response {
    answers.lock().logins.came.push(("register", client));
    (StatusCode::CREATED, Json(json!({ "client_id": "page-1" }))).into_response()
}

async fn token(State((url, answers)): State<Stub>, request: Request) -> Response {
    let body = to_bytes(request.into_body(), 64 << 10).await.unwrap();
    let asked = object(&body);
    let proof = asked["code_verifier"]
        .as_str()
        .map(|verifier| encoded(Sha256::digest(verifier)));
    let count = {
        let came = &mut answers.lock().logins.came;
        came.push(("token", asked.clone()));
        came.len()
    };
    let is_good = match asked["grant_type"].as_str() {
        Some("authorization_code") => proof.as_deref() == asked["code"].as_str(),
        _ => asked["refresh_token"].as_str().is_some(),
    };
    if !is_good {
        let error = json!({ "error": "invalid_grant" });
        return (StatusCode::BAD_REQUEST, Json(error)).into_response();
    }
    let access = signed(&json!({
        "iss": url, "sub": "8f3c", "aud": asked["resource"], "email": "anna@example.org",
        "iat": now(), "exp": now() + 300, "jti": count,
    }));
    Json(json!({
        "access_token": access, "token_type": "Bearer", "expires_in": 300, "refresh_token": format!("refresh-{count}"),
    }))
    .into_response()
}

async fn revoke(State((_, answers)): State<Stub>, request: Request) -> StatusCode {
    let body = to_bytes(request.into_body(), 64 << 10).await.unwrap();
    answers.lock().logins.came.push(("revoke", object(&body)));
    StatusCode::OK
}
