//! Whom the server takes a caller for.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use tempfile::TempDir;

use crate::support::issuer::{TestIssuer, signed};
use crate::support::{Answer, TOKEN, TestApp};

const ASSERTION: &str = "cf-access-jwt-assertion";

async fn me(app: &TestApp, name: &str, value: &str) -> Answer {
    let request = Request::get("/api/v1/me").header("host", "localhost:8080");
    let request = request.header(name, value).body(Body::empty());
    app.send(request.unwrap()).await
}

async fn by_token(app: &TestApp, token: &str) -> Answer {
    me(app, "authorization", &format!("Bearer {token}")).await
}

#[tokio::test]
async fn whoever_has_a_token_belongs_to_its_tenant() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("access.toml");
    // Of the tokens `n8n` and `old`.
    let tenants = r#"
        [[tenant]]
        name = "research"
        max_runs = 4
        rate_limit = "300/m"
        storage_limit = "20g"
        workspace_quota = "200m"
        languages = ["python"]
        network = false
        [[tenant.token]]
        name = "n8n"
        sha256 = "HASH"
        expires = 2999-01-01
        scopes = ["run"]
    "#;
    let token = "mcs_of-a-test";
    let hash = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(token));
    std::fs::write(&file, tenants.replace("HASH", &hash)).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, private).unwrap();
    let app = TestApp::on_fake_with(&[("ACCESS_FILE", file.to_str().unwrap())]).await;
    insta::assert_snapshot!(by_token(&app, TOKEN).await.text(), @r#"{"tenant":"default","by":"token","name":null,"expiresAt":null,"scopes":["run","files","install","network"],"limits":{"maxRuns":null,"maxKernels":null,"rateLimit":null,"storageLimit":null,"workspaceQuota":null,"languages":null,"network":true}}"#);
    insta::assert_snapshot!(by_token(&app, token).await.text(), @r#"{"tenant":"research","by":"token","name":"n8n","expiresAt":"2999-01-01T00:00:00Z","scopes":["run"],"limits":{"maxRuns":4,"maxKernels":null,"rateLimit":"300/m","storageLimit":21474836480,"workspaceQuota":209715200,"languages":["python"],"network":false}}"#);
    let nobody = by_token(&app, "wrong").await;
    assert_eq!(nobody.status, 401);
    assert_eq!(nobody.json()["error"]["code"], "unauthorized");
}

#[tokio::test]
async fn who_has_logged_in_is_called_as_the_issuer_does() {
    let issuer = TestIssuer::new().await;
    let app = TestApp::on_fake_with(&[("OAUTH_ISSUER", &*issuer.url)]).await;
    let mut claims = issuer.claims("8f3c");
    claims["exp"] = json!(32_472_144_000_u64);
    let tenant = |answer: &Answer| answer.json()["tenant"].as_str().unwrap().len();
    let mut told = Vec::new();
    for (name, value) in [
        ("none", ""),
        ("name", "Anna\nA"),
        ("preferred_username", "anna"),
        ("email", "anna@example.org"),
    ] {
        claims[name] = value.into();
        let answer = by_token(&app, &signed(&claims)).await;
        assert_eq!(tenant(&answer), 32);
        let answer = answer.json();
        told.push(json!([answer["by"], answer["name"], answer["expiresAt"]]).to_string());
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    ["issuer","8f3c","2999-01-01T00:00:00Z"]
    ["issuer","AnnaA","2999-01-01T00:00:00Z"]
    ["issuer","anna","2999-01-01T00:00:00Z"]
    ["issuer","anna@example.org","2999-01-01T00:00:00Z"]
    "#);
    let answer = by_token(&app, TOKEN).await.json();
    assert_eq!(
        (&answer["by"], &answer["name"]),
        (&json!("token"), &json!(null))
    );
}

#[tokio::test]
async fn who_comes_through_cloudflare_is_known_by_that() {
    let team = TestIssuer::new().await;
    let settings = [("CF_ACCESS_TEAM", &*team.url), ("CF_ACCESS_AUD", "tag")];
    let app = TestApp::on_fake_with(&settings).await;
    let mut claims = team.claims("");
    claims["aud"] = json!(["tag"]);
    claims["common_name"] = "robot.access".into();
    let answer = me(&app, ASSERTION, &signed(&claims)).await.json();
    assert_eq!(
        (&answer["by"], &answer["name"]),
        (&json!("cloudflare"), &json!("service:robot.access"))
    );
    assert_eq!(me(&app, "accept", "*/*").await.status, 401);
}
