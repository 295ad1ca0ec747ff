//! Logging in with a token: the whole way of a client and its person, and what leads nowhere.

mod ends;
mod grants;
mod page;
mod page_client;
mod rates;
mod registration;
mod scopes;
mod settings;

use std::path::PathBuf;

use axum::body::Body;
use axum::http::{Method, Request};
use mcp_code_sandbox::access::TokenCommand;
use serde_json::{Value, json};
use tempfile::TempDir;
use url::{Url, form_urlencoded};

use crate::support::{Answer, TOKEN, TestApp};

/// The pair of RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const CALLBACK: &str = "http://localhost:4711/callback";
const RESOURCE: &str = "http://localhost:8080/mcp";

/// A server that logs in those who have `MCP_API_TOKEN` or the token of a tenant.
struct World {
    app: TestApp,
    /// Of the tenant `research`.
    token: String,
    file: PathBuf,
    _dir: TempDir,
}

/// What a client asks of a person, and where it keeps what it needs for that.
struct Visit {
    /// With the query.
    path: String,
    cookie: String,
    nonce: String,
}

fn form(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish()
}

/// Fields, some of which are others; empty ones are left out.
fn with<'a>(
    fields: &[(&'a str, &'a str)],
    others: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let is_other = |name: &str| others.iter().any(|(other, _)| *other == name);
    let kept = fields.iter().filter(|(name, _)| !is_other(name));
    let all = kept.chain(others).filter(|(_, value)| !value.is_empty());
    all.copied().collect()
}

impl World {
    async fn new(settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("access.toml");
        let command = TokenCommand::New {
            tenant: "research".parse().unwrap(),
            name: "anna".parse().unwrap(),
            expires: None,
            scopes: Vec::new(),
        };
        let token = command.run(Some(&file)).unwrap();
        let path = file.display().to_string();
        let own = [("OAUTH_BUILTIN", "1"), ("ACCESS_FILE", &*path)];
        let settings: Vec<_> = settings.iter().copied().chain(own).collect();
        Self {
            app: TestApp::on_fake_with(&settings).await,
            token,
            file,
            _dir: dir,
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost:8080");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.app.send(request.body(Body::from(body)).unwrap()).await
    }

    async fn post_form(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        self.send(Method::POST, path, &headers, form(fields)).await
    }

    async fn register(&self, metadata: &Value) -> Answer {
        let headers = [("content-type", "application/json")];
        self.send(
            Method::POST,
            "/oauth/register",
            &headers,
            metadata.to_string(),
        )
        .await
    }

    async fn client(&self) -> String {
        let metadata = json!({ "redirect_uris": [CALLBACK], "client_name": "Test" });
        let answer = self.register(&metadata).await.json();
        answer["client_id"].as_str().unwrap().to_owned()
    }

    /// The address at which a client asks, with some of it changed.
    fn address(client: &str, others: &[(&str, &str)]) -> String {
        let fields = [
            ("response_type", "code"),
            ("client_id", client),
            ("redirect_uri", CALLBACK),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
            ("state", "a state"),
            ("resource", RESOURCE),
        ];
        format!("/oauth/authorize?{}", form(&with(&fields, others)))
    }

    async fn visit(&self, path: String) -> Visit {
        let answer = self.app.get(&path).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let cookie = answer.header("set-cookie").split(';').next().unwrap();
        let text = answer.text();
        let nonce = text.split("name=\"nonce\" value=\"").nth(1).unwrap();
        Visit {
            path,
            cookie: cookie.to_owned(),
            nonce: nonce.split('"').next().unwrap().to_owned(),
        }
    }

    async fn paste(&self, visit: &Visit, token: &str) -> Answer {
        let body = form(&[("nonce", &visit.nonce), ("token", token)]);
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("origin", "http://localhost:8080"),
            ("cookie", &visit.cookie),
        ];
        self.send(Method::POST, &visit.path, &headers, body).await
    }

    /// Where the browser is sent when a token was pasted that counts.
    async fn sent(
        &self,
        client: &str,
        token: &str,
        others: &[(&str, &str)],
    ) -> Vec<(String, String)> {
        let visit = self.visit(Self::address(client, others)).await;
        let answer = self.paste(&visit, token).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        let location = Url::parse(answer.header("location")).unwrap();
        location.query_pairs().into_owned().collect()
    }

    async fn code(&self, client: &str, token: &str) -> String {
        self.sent(client, token, &[]).await[0].1.clone()
    }

    async fn exchange(&self, client: &str, code: &str, others: &[(&str, &str)]) -> Answer {
        let fields = [
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
            ("resource", RESOURCE),
        ];
        self.post_form("/oauth/token", &with(&fields, others)).await
    }

    async fn refresh(&self, client: &str, token: &str) -> Answer {
        let fields = [
            ("grant_type", "refresh_token"),
            ("client_id", client),
            ("refresh_token", token),
        ];
        self.post_form("/oauth/token", &fields).await
    }

    /// The access token and the refresh token of somebody who has logged in.
    async fn tokens(&self, client: &str, token: &str) -> (String, String) {
        let code = self.code(client, token).await;
        let answer = self.exchange(client, &code, &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        both(&answer)
    }

    /// Whether a token lets its holder in, and why not.
    async fn ping(&self, token: &str) -> (u16, String) {
        let authorization = format!("Bearer {token}");
        let headers = [
            ("content-type", "application/json"),
            ("authorization", authorization.as_str()),
        ];
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        let answer = self
            .send(Method::POST, "/mcp", &headers, ping.to_string())
            .await;
        (answer.status.as_u16(), answer.text())
    }

    async fn run(&self, token: &str, code: &str) -> Value {
        let authorization = format!("Bearer {token}");
        let headers = [
            ("content-type", "application/json"),
            ("authorization", authorization.as_str()),
        ];
        let arguments = json!({ "conversationId": "demo", "language": "shell", "code": code });
        let params = json!({ "name": "run_code", "arguments": arguments });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let answer = self
            .send(Method::POST, "/mcp", &headers, message.to_string())
            .await;
        answer.json()["result"]["structuredContent"].clone()
    }
}

fn both(answer: &Answer) -> (String, String) {
    let answer = answer.json();
    let text = |name: &str| answer[name].as_str().unwrap().to_owned();
    (text("access_token"), text("refresh_token"))
}

/// What a ping is answered.
fn pong() -> (u16, String) {
    (200, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned())
}

#[tokio::test]
async fn a_client_finds_its_way_from_the_bare_address_to_an_answer() {
    let world = World::new(&[]).await;
    let refused = world.send(Method::POST, "/mcp", &[], String::new()).await;
    assert_eq!(
        refused.header("www-authenticate"),
        r#"Bearer resource_metadata="http://localhost:8080/.well-known/oauth-protected-resource/mcp", scope="sandbox""#
    );
    insta::assert_snapshot!(refused.text(), @r#"{"error":{"code":"unauthorized","message":"the access token is missing: log in at http://localhost:8080, and send the header `Authorization: Bearer <access token>`"}}"#);
    let resource = world
        .app
        .get("/.well-known/oauth-protected-resource/mcp")
        .await;
    insta::assert_snapshot!(resource.text(), @r#"{"resource":"http://localhost:8080/mcp","authorization_servers":["http://localhost:8080"],"bearer_methods_supported":["header"],"resource_name":"mcp-code-sandbox","resource_documentation":"http://localhost:8080/docs","scopes_supported":["sandbox"]}"#);
    let metadata = world
        .app
        .get("/.well-known/oauth-authorization-server")
        .await;
    insta::assert_snapshot!(metadata.text(), @r#"{"issuer":"http://localhost:8080","authorization_endpoint":"http://localhost:8080/oauth/authorize","token_endpoint":"http://localhost:8080/oauth/token","registration_endpoint":"http://localhost:8080/oauth/register","revocation_endpoint":"http://localhost:8080/oauth/revoke","scopes_supported":["sandbox","sandbox:run","sandbox:files","sandbox:install","sandbox:network"],"response_types_supported":["code"],"response_modes_supported":["query"],"grant_types_supported":["authorization_code","refresh_token"],"token_endpoint_auth_methods_supported":["none"],"revocation_endpoint_auth_methods_supported":["none"],"code_challenge_methods_supported":["S256"],"client_id_metadata_document_supported":true,"authorization_response_iss_parameter_supported":true}"#);
    let client = world.client().await;
    let sent = world.sent(&client, &world.token, &[]).await;
    let code = sent[0].1.clone();
    let sent: Vec<_> = sent
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(
        sent,
        [
            ("code", &*code),
            ("state", "a state"),
            ("iss", "http://localhost:8080")
        ]
    );
    let answer = world.exchange(&client, &code, &[]).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("cache-control")),
        (200, "no-store")
    );
    let (access, refresh) = both(&answer);
    assert_eq!(
        answer.json(),
        json!({
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": 3600,
            "refresh_token": refresh,
            "scope": "sandbox",
        })
    );
    assert!(
        access.starts_with("mcs_at_") && !access.contains('.'),
        "{access}"
    );
    assert_eq!(world.ping(&access).await, pong());
}

#[tokio::test]
async fn whoever_logs_in_is_the_one_whose_token_they_paste() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    for token in [TOKEN, &world.token] {
        world
            .run(token, &format!("echo of {token} > own.txt"))
            .await;
        let (access, _) = world.tokens(&client, token).await;
        let outcome = world.run(&access, "cat own.txt").await;
        assert_eq!(outcome["stdout"], format!("of {token}\n"));
    }
}

#[tokio::test]
async fn tokens_count_as_before_beside_it() {
    let world = World::new(&[]).await;
    for token in [TOKEN, &world.token] {
        assert_eq!(world.ping(token).await, pong());
    }
    let (status, text) = world.ping("mcs_wrong").await;
    assert_eq!(status, 401);
    insta::assert_snapshot!(text, @r#"{"error":{"code":"unauthorized","message":"the bearer token is missing or wrong: send the header `Authorization: Bearer <token>`"}}"#);
}

#[tokio::test]
async fn without_it_there_is_no_place_to_log_in() {
    let app = TestApp::on_fake().await;
    for path in [
        "/oauth/authorize",
        "/oauth/token",
        "/oauth/register",
        "/oauth/revoke",
    ] {
        let answer = app.get(path).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["error"]["code"]),
            (404, &json!("no_such_route"))
        );
    }
    assert!(!app.root().join(".logins").exists());
}
