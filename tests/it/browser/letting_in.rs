//! The page on which people let a client in, in front of a client that waits on their own machine.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Html;
use axum::routing::get;
use parking_lot::Mutex;
use reqwest::Client;
use serde_json::{Value, json};
use thirtyfour::Key;
use tokio::net::TcpListener;
use url::{Url, form_urlencoded};

use super::accessibility::{assert_accessible, assert_good_everywhere};
use super::page::Page;
use crate::support::TOKEN;

/// The pair of RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// A client that has registered, and what came back to it.
struct Editor {
    base: String,
    callback: String,
    id: String,
    http: Client,
}

impl Editor {
    async fn registered(base: &str, callback: &str) -> Self {
        let http = Client::builder().no_proxy().build().unwrap();
        let metadata = json!({ "redirect_uris": [callback], "client_name": "Editor" });
        let answer = http.post(format!("{base}/oauth/register")).json(&metadata);
        let answer: Value = answer.send().await.unwrap().json().await.unwrap();
        Self {
            base: base.to_owned(),
            callback: callback.to_owned(),
            id: answer["client_id"].as_str().unwrap().to_owned(),
            http,
        }
    }

    /// Where it sends its person.
    fn address(&self) -> String {
        let fields = [
            ("response_type", "code"),
            ("client_id", &self.id),
            ("redirect_uri", &self.callback),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
            ("state", "a state"),
        ];
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        format!("{}/oauth/authorize?{query}", self.base)
    }

    /// What a program prints for whoever has this code.
    async fn run(&self, code: &str) -> Value {
        let fields = [
            ("grant_type", "authorization_code"),
            ("client_id", &self.id),
            ("code", code),
            ("redirect_uri", &self.callback),
            ("code_verifier", VERIFIER),
        ];
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        let request = self
            .http
            .post(format!("{}/oauth/token", self.base))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        let tokens: Value = request.send().await.unwrap().json().await.unwrap();
        let arguments = json!({ "conversationId": "demo", "language": "shell", "code": "echo in" });
        let params = json!({ "name": "run_code", "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let request = self
            .http
            .post(format!("{}/mcp", self.base))
            .bearer_auth(tokens["access_token"].as_str().unwrap())
            .json(&call);
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        answer["result"]["structuredContent"]["stdout"].clone()
    }
}

async fn someone_is_let_in(page: &Page, editor: &Editor, came: &Mutex<Vec<String>>) {
    page.go(&editor.address(), "#token").await;
    let script = "return [document.querySelector('h1').textContent, document.querySelector('.host').textContent, document.scripts.length, document.activeElement.id]";
    assert_eq!(
        page.js(script, Vec::new()).await,
        json!([
            "“Editor” wants to use this code sandbox",
            "127.0.0.1",
            0,
            "token"
        ])
    );
    assert_good_everywhere(page, "letting-in").await;
    page.type_text("none of them").await;
    page.press(Key::Enter).await;
    page.arrives(".told:not(:empty)").await;
    assert_eq!(
        page.text("[role=alert]").await,
        "This token is not known here, or has expired."
    );
    assert_eq!(page.focused().await, "token");
    for scheme in ["light", "dark"] {
        page.scheme(scheme).await;
        assert_accessible(page, &format!("a wrong token, {scheme}")).await;
        page.screenshot(&format!("letting-in-wrong-{scheme}")).await;
    }
    // The button is reached as well, and is the last thing on the page.
    page.type_text(TOKEN).await;
    page.press(Key::Tab).await;
    let script = "return document.activeElement.textContent";
    assert_eq!(page.js(script, Vec::new()).await, "Let it in");
    page.press(Key::Enter).await;
    page.arrives("#thanks").await;
    let came = came.lock().pop().unwrap();
    let came: Vec<_> = form_urlencoded::parse(came.as_bytes())
        .into_owned()
        .collect();
    let names: Vec<_> = came.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["code", "state", "iss"]);
    assert_eq!(
        (came[1].1.as_str(), came[2].1.as_str()),
        ("a state", editor.base.as_str())
    );
    assert_eq!(editor.run(&came[0].1).await, "in\n");
}

/// Another page shows it in a frame, to have people paste what they do not see.
async fn no_frame_shows_it(page: &Page, editor: &Editor) {
    let mut framing = Url::parse(&editor.callback).unwrap();
    framing.set_path("/framing");
    framing
        .query_pairs_mut()
        .append_pair("of", &editor.address());
    page.driver.goto(framing.as_str()).await.unwrap();
    page.arrives("iframe").await;
    let log = page.driver.browser_log().await.unwrap();
    let mut texts = log.iter().map(|entry| &entry.message);
    assert!(
        texts.any(|text| text.contains("frame-ancestors")),
        "{log:?}"
    );
}

#[tokio::test]
async fn a_client_on_the_machine_is_let_in_by_keyboard() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let callback = format!("http://{}/callback", listener.local_addr().unwrap());
    let came: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&came);
    let thank = async move |RawQuery(query): RawQuery| {
        seen.lock().extend(query);
        Html("<p id=\"thanks\">Thanks</p>")
    };
    let frame = async |RawQuery(query): RawQuery| {
        let query = query.unwrap();
        let (_, of) = form_urlencoded::parse(query.as_bytes()).next().unwrap();
        Html(format!(
            "<iframe src=\"{}\"></iframe>",
            of.replace('&', "&amp;")
        ))
    };
    let routes = Router::new()
        .route("/callback", get(thank))
        .route("/framing", get(frame));
    let client = axum::serve(listener, routes);
    let on_the_page = async {
        let page = Page::at_public_address(&[("OAUTH_BUILTIN", "1")]).await;
        let base = page.js("return location.origin", Vec::new()).await;
        let editor = Editor::registered(base.as_str().unwrap(), &callback).await;
        someone_is_let_in(&page, &editor, &came).await;
        no_frame_shows_it(&page, &editor).await;
        page.close().await;
    };
    tokio::select! {
        ended = async { client.await } => panic!("the client ended: {ended:?}"),
        () = on_the_page => {}
    }
}
