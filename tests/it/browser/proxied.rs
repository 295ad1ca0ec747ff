//! The page behind a proxy, under another name and below a path, without TLS.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONNECTION, COOKIE, SET_COOKIE, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use reqwest::Client;
use serde_json::json;
use thirtyfour::Key;
use tokio::net::TcpListener;

use super::page::{PUBLIC_HOST, Page};
use crate::support::TOKEN;
use crate::support::server::free_address;

/// Passes a request on without the path that is the proxy's own.
async fn forward(client: Client, server: SocketAddr, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().as_str();
    let Some(path) = path.strip_prefix("/box/") else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // Some let in only who has signed in to them.
    let is_known = parts.headers.get(COOKIE) == Some(&HeaderValue::from_static("known=yes"));
    if path == "mcp" && !is_known {
        return StatusCode::FORBIDDEN.into_response();
    }
    let mut response = pass_on(client, &format!("http://{server}/{path}"), parts, body).await;
    let known = HeaderValue::from_static("known=yes; HttpOnly; SameSite=Strict");
    response.headers_mut().insert(SET_COOKIE, known);
    response
}

/// Asks a server for what a browser asks for.
pub(super) async fn pass_on(client: Client, url: &str, parts: Parts, body: Body) -> Response {
    let body = to_bytes(body, 64 << 20).await.unwrap();
    let passed_on = client
        .request(parts.method, url)
        .headers(parts.headers)
        .body(body);
    let Ok(answer) = passed_on.send().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    // Of one connection, not of the answer.
    for own in [CONNECTION, TRANSFER_ENCODING] {
        response.headers_mut().remove(own);
    }
    *response.body_mut() = Body::from_stream(answer.bytes_stream());
    response
}

/// Browsers refuse the clipboard without TLS: what is to be copied is selected, and the page says with which keys it is
/// copied, to screen readers too.
async fn copy_by_hand(page: &Page) {
    let secure = page.js("return isSecureContext", Vec::new()).await;
    assert_eq!(secure, false, "else nothing of this is tested");
    let is_told = |button: &str, status: &str, keys: &str| {
        format!(
            "['{button}', '{status}'].every((id) => document.getElementById(id)?.textContent === 'Press {keys} to copy')"
        )
    };
    page.click("#copy-output").await;
    page.until(&is_told("copy-output", "announcement", "Ctrl+C"))
        .await;
    let selected = page.js("return getSelection().toString()", Vec::new());
    assert_eq!(selected.await, "drawn");
    // What is said beside an open dialog is not heard.
    page.click("#open-curl").await;
    page.click("#copy-curl").await;
    page.until(&is_told("copy-curl", "curl-status", "Ctrl+C"))
        .await;
    page.until("getSelection().toString().startsWith('curl -sS')")
        .await;
    let agent = page.js("return navigator.userAgent", Vec::new()).await;
    let mac = json!({ "userAgent": agent, "platform": "MacIntel" });
    page.cdp("Emulation.setUserAgentOverride", mac).await;
    page.reload().await;
    page.until("!document.getElementById('run').disabled").await;
    page.click("#open-curl").await;
    page.click("#copy-curl").await;
    page.until(&is_told("copy-curl", "curl-status", "Cmd+C"))
        .await;
}

/// Asks for the server's health on the page of the REST interface.
async fn try_the_interface(page: &Page, home: &str) {
    let health = "#operations-server-health";
    page.go(&format!("{home}docs/"), health).await;
    for button in [".opblock-summary-control", ".try-out__btn", ".execute"] {
        let button = format!("{health} {button}");
        page.until(&format!("document.querySelector('{button}')"))
            .await;
        page.click(&button).await;
    }
    page.until(&format!(
        "document.querySelector('{health} .live-responses-table tbody .response-col_status')?.textContent.includes('200')"
    ))
    .await;
}

/// Files are looked at and renamed below the path as well. Pages of programs are not shown: without TLS the browser
/// does not say what they are for.
async fn files_are_at_hand(page: &Page) {
    page.run(
        "shell",
        "echo text > note.txt; echo '<p>' > page.html; rm *.png",
    )
    .await;
    page.until("document.querySelectorAll('#file-list li').length === 2")
        .await;
    page.click("#file-list [title='note.txt']").await;
    page.until("document.querySelector('#preview pre')?.textContent === 'text\\n'")
        .await;
    page.click("#rename-file").await;
    let name = page.find("#new-name").await;
    name.send_keys("other").await.unwrap();
    name.send_keys(Key::Enter).await.unwrap();
    page.until("document.querySelector('#file-list [title=\"other.txt\"]')")
        .await;
    page.click("#file-list [title='page.html']").await;
    page.until("document.getElementById('preview-note').textContent.startsWith('Pages are shown only where')")
        .await;
    page.click("#file-dialog [data-close]").await;
}

#[tokio::test]
async fn the_page_works_below_a_path_of_another_host() {
    let server = free_address().await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let home = format!(
        "http://{PUBLIC_HOST}:{}/box/",
        listener.local_addr().unwrap().port()
    );
    let client = Client::builder().no_proxy().build().unwrap();
    let routes = Router::new().fallback(move |request| forward(client.clone(), server, request));
    let proxy = axum::serve(listener, routes);
    let on_the_page = async {
        let page = Page::behind(
            &home,
            server,
            &[("PUBLIC_BASE_URL", home.trim_end_matches('/'))],
        )
        .await;
        page.give_token(TOKEN).await;
        page.until("!document.getElementById('run').disabled").await;
        let code = "from PIL import Image\nprint('drawn', flush=True)\nImage.new('RGB', (300, 200)).save('a b.png')";
        let (word, output) = page.run("python", code).await;
        assert_eq!((word.as_str(), output.as_str()), ("OK", "drawn\n"));
        page.until("document.querySelector('#pictures img')?.naturalWidth === 300")
            .await;
        // The same name again is another picture.
        page.run("python", &code.replace("300", "500")).await;
        for css in ["#pictures img", "#file-list img"] {
            page.until(&format!(
                "document.querySelector('{css}')?.naturalWidth === 500"
            ))
            .await;
        }
        let link = page
            .js(
                "return document.querySelector('#file-list a').href",
                Vec::new(),
            )
            .await;
        assert!(
            link.as_str().unwrap().starts_with(&format!("{home}files/")),
            "{link}"
        );
        copy_by_hand(&page).await;
        page.click("#curl-dialog [data-close]").await;
        files_are_at_hand(&page).await;
        try_the_interface(&page, &home).await;
        page.close().await;
    };
    tokio::select! {
        ended = async { proxy.await } => panic!("the proxy ended: {ended:?}"),
        () = on_the_page => {}
    }
}
