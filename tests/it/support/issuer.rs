//! An authorization server on the loopback: its documents, keys that change, and tokens that it signs.

mod login;

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaKeyPair,
};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use self::login::Logins;

/// A private key.
pub(crate) enum TestKey {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// Making one takes a while.
pub(crate) static RSA: LazyLock<TestKey> = LazyLock::new(TestKey::rsa);
pub(crate) static OTHER_RSA: LazyLock<TestKey> = LazyLock::new(TestKey::rsa);
pub(crate) static EC: LazyLock<TestKey> = LazyLock::new(|| {
    TestKey::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
});
pub(crate) static ED: LazyLock<TestKey> =
    LazyLock::new(|| TestKey::Ed(Ed25519KeyPair::generate().unwrap()));

impl TestKey {
    fn rsa() -> Self {
        let size = aws_lc_rs::rsa::KeySize::Rsa2048;
        Self::Rsa(RsaKeyPair::generate(size).unwrap())
    }

    /// What is published of it.
    pub(crate) fn jwk(&self, id: &str) -> Value {
        let mut jwk = match self {
            Self::Rsa(pair) => {
                let der = pair.as_der().unwrap();
                // The key itself comes after what says that it is one of RSA.
                let key = EncodingKey::from_rsa_der(&der.as_ref()[26..]);
                let jwk = Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap();
                serde_json::to_value(jwk).unwrap()
            }
            Self::Ec(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "alg": "ES256", "x": encoded(x), "y": encoded(y) })
            }
            Self::Ed(pair) => {
                let x = encoded(pair.public_key().as_ref());
                json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "x": x })
            }
        };
        jwk["kid"] = id.into();
        jwk["use"] = "sig".into();
        jwk
    }

    pub(crate) fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let padding: &'static dyn aws_lc_rs::signature::RsaEncoding = match algorithm {
                    "PS256" => &RSA_PSS_SHA256,
                    _ => &RSA_PKCS1_SHA256,
                };
                pair.sign(padding, &random, message, &mut signature)
                    .unwrap();
                signature
            }
            Self::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// A token with this header and these claims, signed by what is given.
pub(crate) fn jwt(head: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!(
        "{}.{}",
        encoded(head.to_string()),
        encoded(claims.to_string())
    );
    let signature = encoded(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// What tokens begin with about which the stub says nothing, and never ends.
pub(crate) const MADE_UP: &str = "made-up-";

/// What the stub answers.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) keys: Vec<Value>,
    /// Whether nothing is answered but that it is broken.
    pub(crate) is_down: bool,
    /// How often the keys were fetched.
    pub(crate) fetches: usize,
    /// What it says of tokens that only it can read.
    pub(crate) known: Vec<(String, Value)>,
    /// How many were asked about that nobody has, of which it says nothing for as long as one waits.
    pub(crate) made_up: usize,
    /// How often one was asked about that somebody has.
    pub(crate) asked_known: usize,
    /// What came with the last question about one.
    pub(crate) asked: Option<(String, Value)>,
    pub(crate) logins: Logins,
}

/// The stub.
pub(crate) struct TestIssuer {
    pub(crate) url: String,
    pub(crate) answers: Arc<Mutex<Answers>>,
    _served: AbortOnDropHandle<()>,
}

type Stub = (String, Arc<Mutex<Answers>>);

impl TestIssuer {
    /// With one key of RSA, `one`.
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = Arc::new(Mutex::new(Answers {
            keys: vec![RSA.jwk("one")],
            ..Answers::default()
        }));
        let stub: Stub = (url.clone(), Arc::clone(&answers));
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/keys", get(keys))
            .route("/cdn-cgi/access/certs", get(keys))
            .route("/introspect", post(introspect))
            .merge(login::routes())
            .layer(from_fn_with_state(stub.clone(), login::for_pages))
            .layer(from_fn_with_state(stub.clone(), up))
            .with_state(stub);
        let serve = async move { axum::serve(listener, routes).await.unwrap() };
        #[expect(clippy::disallowed_methods, reason = "it ends with the stub")]
        let served = AbortOnDropHandle::new(tokio::spawn(serve));
        Self {
            url,
            answers,
            _served: served,
        }
    }

    /// What a good token for the server of these tests says.
    pub(crate) fn claims(&self, subject: &str) -> Value {
        json!({
            "iss": self.url, "sub": subject, "aud": "http://localhost:8080/mcp",
            "iat": now(), "exp": now() + 300, "scope": "openid",
        })
    }

    /// A good token.
    pub(crate) fn token(&self, subject: &str) -> String {
        signed(&self.claims(subject))
    }
}

/// A token signed with the key `one`.
pub(crate) fn signed(claims: &Value) -> String {
    let head = json!({ "alg": "RS256", "typ": "at+jwt", "kid": "one" });
    jwt(&head, claims, |message| RSA.sign("RS256", message))
}

async fn up(State((_, answers)): State<Stub>, request: Request, next: Next) -> Response {
    if answers.lock().is_down {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    next.run(request).await
}

async fn metadata(State(stub): State<Stub>) -> Json<Value> {
    let url = &stub.0;
    let mut metadata = login::metadata(&stub);
    metadata["issuer"] = url.as_str().into();
    metadata["jwks_uri"] = format!("{url}/keys").into();
    metadata["introspection_endpoint"] = format!("{url}/introspect").into();
    Json(metadata)
}

async fn keys(State((_, answers)): State<Stub>) -> Json<Value> {
    let mut answers = answers.lock();
    answers.fetches += 1;
    Json(json!({ "keys": answers.keys }))
}

async fn introspect(State((_, answers)): State<Stub>, request: Request) -> Json<Value> {
    let header = request.headers().get(AUTHORIZATION);
    let own = header
        .map_or("", |value| value.to_str().unwrap())
        .to_owned();
    let body = axum::body::to_bytes(request.into_body(), 64 << 10)
        .await
        .unwrap();
    let fields = url::form_urlencoded::parse(&body);
    let form: Value = fields
        .map(|(name, value)| (name.into_owned(), value.into_owned().into()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    if form["token"]
        .as_str()
        .is_some_and(|token| token.starts_with(MADE_UP))
    {
        answers.lock().made_up += 1;
        return std::future::pending().await;
    }
    let mut answers = answers.lock();
    answers.asked_known += 1;
    let known = answers
        .known
        .iter()
        .find(|(token, _)| form["token"] == **token);
    let answer = known.map_or_else(|| json!({ "active": false }), |(_, answer)| answer.clone());
    answers.asked = Some((own, form));
    Json(answer)
}
