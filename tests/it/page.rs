//! The page at `/` as a browser gets it.

use axum::body::Body;
use axum::http::{Method, StatusCode};

use crate::support::{TestApp, get};

#[tokio::test]
async fn the_page_comes_with_its_rules() {
    let app = TestApp::on_fake().await;
    let answer = app.get("/").await;
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    assert!(answer.text().starts_with("<!doctype html>"));
    insta::assert_snapshot!(answer.header("content-security-policy"), @"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
}

/// The ways in that the page is told of, and the rule for what it may ask.
async fn ways(settings: &[(&str, &str)]) -> String {
    let app = TestApp::on_fake_with(settings).await;
    let answer = app.get("/").await;
    let page = answer.text();
    let names = ["login-client", "let-in-by"];
    let metas = page
        .lines()
        .filter(|line| names.iter().any(|name| line.contains(name)));
    let policy = answer.header("content-security-policy");
    let connect = policy
        .split("; ")
        .filter(|rule| rule.starts_with("connect-src"));
    metas.chain(connect).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn it_knows_how_people_come_in_and_may_ask_issuers_alone() {
    let none = ways(&[]).await;
    assert_eq!(none, "connect-src 'self'");
    let issuers = (
        "OAUTH_ISSUER",
        "https://a.example/realms/x,https://b.example:8443",
    );
    insta::assert_snapshot!(ways(&[issuers]).await, @r#"
    <meta name="login-client" content="">
    connect-src 'self' https://a.example https://b.example:8443
    "#);
    let page = [
        ("OAUTH_ISSUER", "https://a.example/realms/x"),
        ("OAUTH_PAGE_CLIENT", "a \"page\""),
    ];
    insta::assert_snapshot!(ways(&page).await, @r#"
    <meta name="login-client" content="a &#34;page&#34;">
    connect-src 'self' https://a.example
    "#);
    insta::assert_snapshot!(ways(&[("OAUTH_BUILTIN", "1")]).await, @r#"
    <meta name="login-client" content="page">
    connect-src 'self'
    "#);
    let cloudflare = [("CF_ACCESS_TEAM", "myteam"), ("CF_ACCESS_AUD", "tag")];
    insta::assert_snapshot!(ways(&cloudflare).await, @r#"
    <meta name="let-in-by" content="cloudflare">
    connect-src 'self'
    "#);
}

#[tokio::test]
async fn its_files_have_their_types() {
    let app = TestApp::on_fake().await;
    for (path, media_type) in [
        ("bundle/app/main.js", "text/javascript; charset=utf-8"),
        ("bundle/editor/editor.js", "text/javascript; charset=utf-8"),
        ("bundle/style/page.css", "text/css; charset=utf-8"),
        ("favicon.svg", "image/svg+xml"),
        ("bundle/editor/LICENSES.txt", "text/plain; charset=utf-8"),
    ] {
        let answer = app.get(&part(&app, path).await).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (StatusCode::OK, media_type),
            "{path}"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
    }
    let page = part(&app, "").await;
    for path in [
        "/index.html".to_owned(),
        "/bundle/app/main.js".to_owned(),
        page.clone(),
        format!("{page}index.html"),
        format!("{page}bundle/app/"),
        format!("{page}bundle/../../../Cargo.toml"),
        format!("{page}package.json"),
        "/assets/0123456789abcdef/bundle/app/main.js".to_owned(),
    ] {
        let answer = app.get(&path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
}

/// The address of a file of the page, whose folder is known from the page alone.
async fn part(app: &TestApp, path: &str) -> String {
    let page = app.get("/").await.text();
    let (_, rest) = page.split_once("src=\"assets/").expect("a script");
    let (version, _) = rest.split_once('/').expect("a folder");
    format!("/assets/{version}/{path}")
}

#[tokio::test]
async fn the_page_is_few_files_of_which_a_browser_asks_for_itself_again() {
    let app = TestApp::on_fake().await;
    let page = app.get("/").await.text();
    let head = page.split_once("</head>").unwrap().0;
    let parts = head
        .match_indices("href=\"")
        .chain(head.match_indices("src=\""));
    let parts: Vec<_> = parts
        .map(|(at, name)| head[at + name.len()..].split('"').next().unwrap())
        .collect();
    let (folder, _) = parts[0].rsplit_once('/').unwrap();
    let names: Vec<_> = parts
        .iter()
        .map(|part| part.replacen(folder, "", 1))
        .collect();
    insta::assert_debug_snapshot!(names, @r#"
    [
        "/favicon.svg",
        "/bundle/style/page.css",
        "/bundle/editor/editor.js",
        "/bundle/app/main.js",
    ]
    "#);
    for part in parts {
        let answer = app.get(&format!("/{part}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{part}");
        assert_eq!(
            answer.header("cache-control"),
            "public, max-age=31536000, immutable",
            "{part}"
        );
    }
    assert_eq!(
        app.get("/favicon.svg").await.header("cache-control"),
        "no-cache"
    );
}

#[tokio::test]
async fn unchanged_assets_answer_304() {
    let app = TestApp::on_fake().await;
    let main = part(&app, "bundle/app/main.js").await;
    let first = app.get(&main).await;
    let etag = first.header("etag");
    let again = |etag: &str| {
        let request = get(&main).header("if-none-match", etag);
        app.send(request.body(Body::empty()).unwrap())
    };
    for etag in [etag.to_owned(), format!("W/\"old\", {etag}")] {
        let answer = again(&etag).await;
        assert_eq!(
            (answer.status, answer.body.len()),
            (StatusCode::NOT_MODIFIED, 0)
        );
        assert_eq!(answer.header("etag"), first.header("etag"));
    }
    assert_eq!(again("W/\"old\"").await.body, first.body);
    let other = app.get(&part(&app, "bundle/admin/main.js").await).await;
    assert_ne!(other.header("etag"), etag);
}

#[tokio::test]
async fn the_editor_is_sent_compressed() {
    let app = TestApp::on_fake().await;
    let editor = part(&app, "bundle/editor/editor.js").await;
    let request = get(&editor).header("accept-encoding", "gzip");
    let answer = app.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.header("content-encoding"), "gzip");
    assert!(answer.header("vary").contains("accept-encoding"));
    assert!(answer.body.len() < 250_000, "{}", answer.body.len());
}

#[tokio::test]
async fn a_head_has_the_headers_alone() {
    let app = TestApp::on_fake().await;
    let request = get("/").method(Method::HEAD);
    let answer = app.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, 0));
    assert_eq!(answer.header("etag"), app.get("/").await.header("etag"));
}

#[tokio::test]
async fn the_page_of_the_operator_is_there_with_its_token_alone() {
    let app = TestApp::on_fake().await;
    for path in ["/admin", "/admin/"] {
        let answer = app.get(path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        assert_eq!(answer.json()["error"]["code"], "no_such_route");
    }
    let settings = [
        ("ADMIN_TOKEN", "4c1d5e7ab0934f6f8e21d0a7"),
        ("OAUTH_ISSUER", "https://a.example"),
    ];
    let app = TestApp::on_fake_with(&settings).await;
    let answer = app.get("/admin").await;
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    let policy = answer.header("content-security-policy");
    assert!(policy.contains("connect-src 'self';"), "{policy}");
    let page = answer.text();
    assert!(!page.contains("login-client"), "{page}");
    let parts = page.match_indices("=\"assets/");
    let parts: Vec<_> = parts
        .map(|(at, _)| page[at + 2..].split('"').next().unwrap())
        .collect();
    assert_eq!(parts.len(), 3, "its icon, style and script: {parts:?}");
    for part in parts {
        assert_eq!(
            app.get(&format!("/{part}")).await.status,
            StatusCode::OK,
            "{part}"
        );
    }
    let answer = app.get("/admin/").await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (StatusCode::PERMANENT_REDIRECT, "../admin")
    );
}
