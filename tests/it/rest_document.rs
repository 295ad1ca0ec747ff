//! The document of the REST interface, and the page that shows it.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::{TestApp, get};

#[tokio::test]
async fn the_document_is_valid_and_has_every_route() {
    let app = TestApp::on_fake().await;
    let document = app.get("/api/v1/openapi.json").await;
    assert_eq!(document.header("content-type"), "application/json");
    let spec = oas3::from_json(document.text()).unwrap();
    assert_eq!(spec.openapi, "3.1.0");
    let operations: BTreeSet<_> = spec
        .operations()
        .map(|(path, method, operation)| {
            let id = operation.operation_id.clone().unwrap();
            format!("{method} {path} {id}")
        })
        .collect();
    insta::assert_snapshot!(operations.into_iter().collect::<Vec<_>>().join("\n"), @"
    DELETE /api/v1/conversations/{id}/files/{name} delete_file
    DELETE /api/v1/sessions/{session_id} end_session
    GET /api/v1/conversations/{id}/archive download_archive
    GET /api/v1/conversations/{id}/files list_files
    GET /api/v1/conversations/{id}/files/{name} download_file
    GET /api/v1/health health
    GET /api/v1/me me
    GET /api/v1/sessions list_sessions
    GET /api/v1/sessions/{session_id} show_session
    PATCH /api/v1/conversations/{id}/files/{name} rename_file
    POST /api/v1/conversations/{id}/files upload_form
    POST /api/v1/execute execute
    POST /api/v1/execute_sync execute_sync
    POST /api/v1/sessions create_session
    POST /api/v1/sessions/{session_id}/interrupt interrupt_session
    POST /execute execute_python
    POST /pip_install pip_install
    PUT /api/v1/conversations/{id}/files/{name} upload_file
    ");
    // Every reference leads somewhere.
    let document = document.json();
    insta::assert_snapshot!(header_parameters(&document).join("\n"), @"
    delete /api/v1/conversations/{id}/files/{name} If-Match If-Unmodified-Since
    get /api/v1/conversations/{id}/files/{name} Range If-Match If-Unmodified-Since
    put /api/v1/conversations/{id}/files/{name} If-Match If-None-Match If-Unmodified-Since
    ");
    for reference in references(&document) {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

/// The operations that take headers, with their names.
fn header_parameters(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let headers = parameters.filter(|parameter| parameter["in"] == "header");
            let names: Vec<_> = headers
                .map(|header| header["name"].as_str().unwrap())
                .collect();
            if !names.is_empty() {
                found.push(format!("{method} {path} {}", names.join(" ")));
            }
        }
    }
    found.sort();
    found
}

fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match value {
                Value::String(target) if name == "$ref" => vec![target.clone()],
                value => references(value),
            })
            .collect(),
        Value::Array(values) => values.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn the_page_of_the_document_comes_from_here_alone() {
    let app = TestApp::on_fake().await;
    let moved = app.get("/docs").await;
    assert_eq!(
        (moved.status.as_u16(), moved.header("location")),
        (308, "docs/")
    );
    let page = app.get("/docs/").await;
    assert_eq!(page.header("content-type"), "text/html");
    insta::assert_snapshot!(page.header("content-security-policy"), @"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    let page = page.text();
    let mut assets = Vec::new();
    for attribute in ["src=\"", "href=\""] {
        for rest in page.split(attribute).skip(1) {
            assets.push(
                rest.split('"')
                    .next()
                    .unwrap()
                    .trim_start_matches("./")
                    .to_owned(),
            );
        }
    }
    assert!(assets.len() > 3, "{page}");
    for asset in assets {
        let answer = app.get(&format!("/docs/{asset}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{asset}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        let again = get(&format!("/docs/{asset}")).header("if-none-match", answer.header("etag"));
        let again = app.send(again.body(Body::empty()).unwrap()).await;
        assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{asset}");
    }
    assert!(
        app.get("/docs/swagger-initializer.js")
            .await
            .text()
            .contains("../api/v1/openapi.json")
    );
    assert_eq!(app.get("/docs/nothing").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_document_leads_to_where_the_server_is() {
    let servers = async |settings: &[(&str, &str)]| {
        let app = TestApp::on_fake_with(settings).await;
        app.get("/api/v1/openapi.json").await.json()["servers"].clone()
    };
    let here = json!([{ "url": "/", "description": "this server" }]);
    assert_eq!(servers(&[]).await, here);
    let named = [("PUBLIC_BASE_URL", "https://box.example/")];
    assert_eq!(servers(&named).await, here);
    // The server is what is behind the proxy's path; what is above it belongs to others.
    let below = [("PUBLIC_BASE_URL", "https://h.example/box")];
    let there = json!([{ "url": "/box", "description": "this server" }]);
    assert_eq!(servers(&below).await, there);
}

#[tokio::test]
async fn the_document_names_the_longest_time_limit_that_there_is() {
    let most = async |longest: &str| {
        let app = TestApp::on_fake_with(&[("RUN_TIMEOUT_MAX", longest)]).await;
        let document = app.get("/api/v1/openapi.json").await.json();
        document["components"]["schemas"]["PythonRequest"]["properties"]["timeout"]["maximum"]
            .clone()
    };
    assert_eq!(most("300s").await, json!(120));
    assert_eq!(most("40s").await, json!(40));
}
