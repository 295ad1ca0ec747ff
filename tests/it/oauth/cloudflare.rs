//! Assertions of Cloudflare Access, which count before every token.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::issuer::{OTHER_RSA, TestIssuer, jwt, signed};
use crate::support::{Answer, TOKEN, TestApp, post};

const HEADER: &str = "cf-access-jwt-assertion";

struct Behind {
    app: TestApp,
    team: TestIssuer,
}

impl Behind {
    async fn new(settings: &[(&str, &str)]) -> Self {
        let team = TestIssuer::new().await;
        let own = [("CF_ACCESS_TEAM", &*team.url), ("CF_ACCESS_AUD", "tag")];
        let settings: Vec<_> = settings.iter().copied().chain(own).collect();
        let app = TestApp::on_fake_with(&settings).await;
        Self { app, team }
    }

    fn claims(&self, subject: &str) -> Value {
        let mut claims = self.team.claims(subject);
        claims["aud"] = json!(["tag"]);
        claims["type"] = "app".into();
        claims
    }

    async fn ask(&self, token: &str, assertion: Option<&str>) -> Answer {
        let mut request = post();
        let headers = request.headers_mut().unwrap();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        if let Some(assertion) = assertion {
            request = request.header(HEADER, assertion);
        }
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        self.app
            .send(request.body(ping.to_string().into()).unwrap())
            .await
    }

    async fn told(&self, token: &str, assertion: Option<&str>) -> (u16, String) {
        let answer = self.ask(token, assertion).await;
        let message = answer.json()["error"]["message"].clone();
        let told = message
            .as_str()
            .unwrap_or_default()
            .replace(&self.team.url, "TEAM");
        (answer.status.as_u16(), told)
    }
}

#[tokio::test]
async fn who_comes_through_the_tunnel_is_known_by_its_assertion_alone() {
    let behind = Behind::new(&[]).await;
    let good = signed(&behind.claims("anna"));
    let service = {
        let mut claims = behind.claims("");
        claims["common_name"] = "robot.access".into();
        signed(&claims)
    };
    for (token, assertion) in [
        ("wrong", Some(&*good)),
        ("wrong", Some(&*service)),
        (TOKEN, None),
    ] {
        assert_eq!(behind.told(token, assertion).await, (200, String::new()));
    }
    let changed = |name: &str, value: Value| {
        let mut claims = behind.claims("anna");
        claims[name] = value;
        signed(&claims)
    };
    let head = json!({ "alg": "RS256", "kid": "one" });
    let forged = jwt(&head, &behind.claims("anna"), |message| {
        OTHER_RSA.sign("RS256", message)
    });
    for (assertion, told) in [
        (
            forged,
            "the assertion of Cloudflare Access has a signature that is not of its issuer",
        ),
        (
            changed("aud", json!(["other"])),
            "the assertion of Cloudflare Access is for the audience other, and this server takes tag: have its issuer put one of these into `aud`, or set CF_ACCESS_AUD",
        ),
        (
            changed("iss", json!("https://other.cloudflareaccess.com")),
            "the assertion of Cloudflare Access is issued by https://other.cloudflareaccess.com, and this server takes those of TEAM \
             (CF_ACCESS_TEAM)",
        ),
        (
            changed("exp", json!(1)),
            "the assertion of Cloudflare Access has expired: get another one",
        ),
        (
            changed("sub", json!("")),
            "the assertion of Cloudflare Access has no claim `sub` of the right form",
        ),
        (
            "none".to_owned(),
            "the assertion of Cloudflare Access is no JWT that can be read: its header is not of that form",
        ),
    ] {
        // Not even with the server's own token: whoever sends both wants to be taken for another.
        assert_eq!(
            behind.told(TOKEN, Some(&assertion)).await,
            (401, told.to_owned())
        );
    }
    // An assertion is no access token.
    assert_eq!(behind.told(&good, None).await.0, 401);
}

#[tokio::test]
async fn no_page_calls_for_whoever_is_logged_in_unless_it_is_named() {
    let settings = [
        ("ALLOWED_ORIGINS", "https://ide.example,http://localhost:*"),
        ("PUBLIC_BASE_URL", "https://box.example"),
    ];
    let behind = Behind::new(&settings).await;
    let good = signed(&behind.claims("anna"));
    let ask = async |origin: &str, assertion: Option<&str>| {
        let mut request = post()
            .header("origin", origin)
            .header("authorization", format!("Bearer {TOKEN}"));
        if let Some(assertion) = assertion {
            request = request.header(HEADER, assertion);
        }
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        let request = request.body(ping.to_string().into()).unwrap();
        behind.app.send(request).await
    };
    for origin in ["https://ide.example", "https://box.example"] {
        assert_eq!(ask(origin, Some(&good)).await.status, 200, "{origin}");
    }
    // With a token of its own, a page on the visitor's machine may call.
    assert_eq!(ask("http://localhost:3000", None).await.status, 200);
    let refused = ask("http://localhost:3000", Some(&good)).await;
    assert_eq!(refused.status, 403);
    insta::assert_snapshot!(refused.text(), @r#"{"error":{"code":"origin_not_allowed","message":"pages of that Origin may not call for whoever is logged in: the operator can add it to ALLOWED_ORIGINS by its name"}}"#);
}

#[tokio::test]
async fn each_who_comes_through_the_tunnel_is_a_tenant() {
    let behind = Behind::new(&[("MCP_API_TOKEN", "")]).await;
    let run = async |subject: &str, code: &str| {
        let arguments = json!({ "conversationId": "demo", "language": "shell", "code": code });
        let params = json!({ "name": "run_code", "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let request = post().header(HEADER, signed(&behind.claims(subject)));
        let request = request.body(call.to_string().into()).unwrap();
        let answer = behind.app.send(request).await.json();
        answer["result"]["structuredContent"]["stdout"].clone()
    };
    let mut told = Vec::new();
    for subject in ["anna", "bert", "anna"] {
        told.push(run(subject, "cat own.txt").await);
        run(subject, "echo own > own.txt").await;
    }
    assert_eq!(told, ["", "", "own\n"]);
    let answer = behind
        .app
        .send(post().method(Method::GET).body("".into()).unwrap())
        .await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("www-authenticate")),
        (401, "Bearer")
    );
}

#[tokio::test]
async fn without_the_setting_an_assertion_is_a_header_like_any_other() {
    let team = TestIssuer::new().await;
    let app = TestApp::on_fake().await;
    let request = post().header(HEADER, signed(&team.claims("anna")));
    let request = request.header("authorization", "");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let answer = app
        .send(request.body(ping.to_string().into()).unwrap())
        .await;
    assert_eq!(answer.text(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let mut bare = post();
    bare.headers_mut().unwrap().remove("authorization");
    let bare = bare.header(HEADER, signed(&team.claims("anna")));
    assert_eq!(
        app.send(bare.body(ping.to_string().into()).unwrap())
            .await
            .status,
        401
    );
}
