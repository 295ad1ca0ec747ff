//! Engines that do what no real one does in a test, imitated by a few lines.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Json, Response};
use futures::StreamExt as _;
use mcp_code_sandbox::executor::docker::DockerExecutor;
use mcp_code_sandbox::runner::catalog::EngineView;
use serde_json::json;
use tokio::net::UnixListener;
use tokio::sync::watch;

use crate::support::{TestApp, eventually};

/// What the engine says it is, for as long as it is that.
type Name = watch::Receiver<&'static str>;

async fn answer(State(mut name): State<Name>, uri: Uri) -> Response {
    match uri.path() {
        "/version" => {
            let component = json!({ "Name": *name.borrow_and_update(), "Version": "1" });
            let answer = json!({ "ApiVersion": "1.41", "Version": "1", "Components": [component] });
            Json(answer).into_response()
        }
        "/info" => Json(json!({})).into_response(),
        "/images/json" | "/containers/json" => Json(json!([])).into_response(),
        "/events" => {
            // There are no events until the end.
            name.borrow_and_update();
            let end = async move { drop(name.changed().await) };
            let none = |()| std::future::ready(None::<Result<Vec<u8>, Infallible>>);
            Body::from_stream(futures::stream::once(end).filter_map(none)).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

#[tokio::test]
async fn an_engine_in_the_place_of_another_is_recognised() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("engine.sock");
    let (replace, name) = watch::channel("Podman Engine");
    let routes = Router::new().fallback(answer).with_state(name);
    let engine = axum::serve(UnixListener::bind(&socket).unwrap(), routes);
    let host = format!("unix://{}", socket.display());
    let server = async {
        let executor = Arc::new(DockerExecutor::new(Some(&host)));
        let app = TestApp::unproved(&[], executor).await;
        let name = || match app.app.parts.gate.catalog.engine() {
            EngineView::Up(engine) => engine.name,
            EngineView::Down(outage) => outage.reason,
        };
        assert_eq!(name(), "Podman 1");
        replace.send("Engine").unwrap();
        eventually("the other one is seen", || name() == "Docker 1").await;
        let ready = app.get("/readyz").await;
        let reason = "there is no runner image: run ./build.sh";
        assert_eq!(ready.json()["reason"], reason);
    };
    tokio::select! {
        _ = engine.into_future() => unreachable!("it serves until it is dropped"),
        () = server => {}
    }
}

#[tokio::test]
async fn a_server_without_room_on_its_disk_is_not_ready() {
    let app = TestApp::on_fake_with(&[("DISK_FREE_FLOOR", "1000000g")]).await;
    let ready = app.get("/readyz").await;
    assert_eq!(ready.status, 503);
    let reason = "the server's disk is nearly full: write less, or ask the operator for room";
    assert_eq!(ready.json()["reason"], reason);
}
