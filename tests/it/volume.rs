//! Files in a volume of the engine (`SANDBOX_VOLUME`). What a real engine makes of it, `tests/compose` tries.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Json, Response};
use mcp_code_sandbox::config::Config;
use mcp_code_sandbox::executor::fake::FakeExecutor;
use mcp_code_sandbox::executor::host_paths::MountSource;
use mcp_code_sandbox::executor::spec::Place;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio_util::task::TaskTracker;

use crate::support::server::call;
use crate::support::{SECRET, TOKEN, TestApp, eventually};

const VOLUME: (&str, &str) = ("SANDBOX_VOLUME", "files");

/// A server whose engine has a volume, which is at `directory`, or else the server's own.
async fn app(settings: &[(&str, &str)], directory: Option<&Path>) -> TestApp {
    let fake = FakeExecutor::with_languages(&["shell"]);
    let root = Arc::new(tempfile::tempdir().unwrap());
    fake.add_volume("files", directory.unwrap_or(root.path()));
    let settings: Vec<_> = settings.iter().copied().chain([VOLUME]).collect();
    let mut app = TestApp::at(root, &settings, Arc::new(fake.clone())).await;
    app.fake = Some(fake);
    app.app.prove();
    app
}

#[tokio::test]
async fn cold_and_warm_runs_have_parts_of_the_volume() {
    let warm = [("POOL_SIZE", "1"), ("SANDBOX_REUSE", "conversation")];
    let app = app(&warm, None).await;
    app.parked("shell", 1).await;
    let fake = app.fake.as_ref().unwrap();
    let (specs, paths) = (fake.specs(), fake.paths());
    let MountSource::Volume { name, path } = paths.find(&specs[0].data).unwrap() else {
        panic!("{:?}", specs[0])
    };
    assert_eq!(name, "files");
    assert!(path.starts_with(".tmp"), "{path:?}");
    let init = paths.find(&Place::Init).unwrap();
    assert!(matches!(init, MountSource::Volume { path, .. } if path.starts_with(".bin")));
    let run = app.run("shell", "echo from the pool > f").await;
    assert_eq!(run["files"][0]["name"], "f", "{run}");
    let read = std::fs::read_to_string(app.workspace("demo").join("f")).unwrap();
    assert_eq!(read, "from the pool\n");
    eventually("the sandbox is clean", || app.app.parts.pool.count().1 == 1).await;
    assert_eq!(app.run("shell", "cat f").await["stdout"], "from the pool\n");
    assert_eq!((app.starts("pool"), app.starts("own")), (1, 1));
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_volume_that_is_not_the_root_runs_nothing() {
    let elsewhere = tempfile::tempdir().unwrap();
    let app = app(&[("POOL_SIZE", "1")], Some(elsewhere.path())).await;
    let refused = app.run("shell", "echo hi").await;
    assert_eq!(refused["code"], "sandbox_not_proven", "{refused}");
    insta::assert_snapshot!(refused["message"].as_str().unwrap(), @"no code is run here, because the server's sandbox is weaker than it must be: control workspace failed (no container starts with a directory of SANDBOX_ROOT: failed to start a sandbox: failed to start a container: no such part). Its operator can see more with `mcp-code-sandbox selftest`");
    // Nothing was started ahead, which would have failed again and again: it was tried with two directories.
    assert_eq!(app.fake.as_ref().unwrap().made(), 2);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_volume_that_nobody_tried_is_not_used() {
    let fake = FakeExecutor::with_languages(&["lisp"]);
    let root = Arc::new(tempfile::tempdir().unwrap());
    fake.add_volume("files", root.path());
    let app = TestApp::at(root, &[VOLUME], Arc::new(fake)).await;
    app.app.prove();
    let refused = app.run("lisp", "echo hi").await;
    assert_eq!(refused["code"], "sandbox_not_proven", "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("control workspace failed (there is no shell"),
        "{message}"
    );
}

/// An engine that has one volume and nothing else, and says this of itself.
#[derive(Clone, Copy)]
struct Imitation {
    api: &'static str,
    version: &'static str,
    component: &'static str,
}

async fn imitate(State(engine): State<Imitation>, uri: Uri) -> Response {
    let is = |end: &str| uri.path().ends_with(end);
    if is("/version") {
        let component = json!({ "Name": engine.component, "Version": engine.version });
        let answer = json!({
            "ApiVersion": engine.api, "Version": engine.version, "Components": [component],
        });
        Json(answer).into_response()
    } else if is("/info") {
        Json(json!({})).into_response()
    } else if is("/volumes/files") {
        let volume = json!({
            "Name": "files", "Driver": "local", "Mountpoint": "/nowhere", "Labels": {}, "Scope": "local", "Options": {},
        });
        Json(volume).into_response()
    } else {
        let nothing = json!({ "message": "no such volume" });
        (StatusCode::NOT_FOUND, Json(nothing)).into_response()
    }
}

/// A directory with an engine in it, and the engine's address.
fn engine(engine: Imitation) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("engine.sock");
    let routes = Router::new().fallback(imitate).with_state(engine);
    let listener = UnixListener::bind(&socket).unwrap();
    TaskTracker::new().spawn(axum::serve(listener, routes).into_future());
    (directory, format!("unix://{}", socket.display()))
}

const DOCKER_26: Imitation = Imitation {
    api: "1.45",
    version: "26.1.5",
    component: "Engine",
};

#[tokio::test]
async fn engines_without_parts_of_volumes_are_refused_at_the_start() {
    let docker_25 = Imitation {
        api: "1.44",
        version: "25.0.3",
        ..DOCKER_26
    };
    let podman = Imitation {
        component: "Podman Engine",
        version: "6.0.0",
        ..DOCKER_26
    };
    let mut told = Vec::new();
    for imitation in [docker_25, podman] {
        let (_directory, host) = engine(imitation);
        for arguments in [&["check-config"][..], &["serve"], &["selftest"]] {
            let output = call(arguments, &[("DOCKER_HOST", &host), VOLUME]).await;
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(64), "{arguments:?}: {said}");
            told.push(said);
        }
    }
    told.dedup();
    insta::assert_snapshot!(told.concat(), @"
    SANDBOX_VOLUME=files is not valid: the container engine is Docker 25.0.3, and only Docker 26 and later mount parts of a volume (API 1.45), Podman does not. Update the engine, or leave SANDBOX_VOLUME out and keep the files in a directory of the engine's host: SANDBOX_ROOT, or SANDBOX_HOST_PATH where the engine sees it at another path
    SANDBOX_VOLUME=files is not valid: the container engine is Podman 6.0.0, and only Docker 26 and later mount parts of a volume (API 1.45), Podman does not. Update the engine, or leave SANDBOX_VOLUME out and keep the files in a directory of the engine's host: SANDBOX_ROOT, or SANDBOX_HOST_PATH where the engine sees it at another path
    ");
}

#[tokio::test]
async fn a_volume_that_the_engine_does_not_have_is_refused_at_the_start() {
    let (_directory, host) = engine(DOCKER_26);
    let check = |name: &'static str| {
        let host = host.clone();
        async move {
            call(
                &["check-config"],
                &[("DOCKER_HOST", &host), ("SANDBOX_VOLUME", name)],
            )
            .await
        }
    };
    let output = check("files").await;
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");
    assert!(
        shown.contains("\nSANDBOX_HOST_PATH=\nSANDBOX_VOLUME=files\n"),
        "{shown}"
    );
    let output = check("project_files").await;
    assert_eq!(output.status.code(), Some(64));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"SANDBOX_VOLUME=project_files is not valid: the container engine has no volume of that name, and none is made. Set it to the name that `docker volume ls` shows for what is mounted at SANDBOX_ROOT; Compose puts the name of its project in front, unless the file has a `name` for the volume");
}

#[test]
fn a_volume_has_a_name_and_the_host_no_directory() {
    let told = |volume: &str, host_path: &str| {
        let lookup = |name: &str| {
            let value = match name {
                "MCP_API_TOKEN" => TOKEN,
                "FILE_SECRET" => SECRET,
                "SANDBOX_VOLUME" => volume,
                "SANDBOX_HOST_PATH" => host_path,
                _ => return None,
            };
            Some(value.to_owned())
        };
        let read = Config::from_lookup(&lookup);
        read.map_or_else(
            |errors| errors.to_string(),
            |config| format!("{:?}", config.storage.volume),
        )
    };
    assert_eq!(told("my_files-2.0", ""), r#"Some("my_files-2.0")"#);
    assert_eq!(told("", "/srv/files"), "None");
    let wrong = ["/srv/files", "x", "-v", "a:b"].map(|name| told(name, ""));
    insta::assert_snapshot!(wrong.join("\n"), @"
    SANDBOX_VOLUME=/srv/files is not valid: it must be the name of a volume, such as `mcp-code-sandbox`: letters, digits, `.`, `_` and `-`, at least two, with a letter or a digit first
    SANDBOX_VOLUME=x is not valid: it must be the name of a volume, such as `mcp-code-sandbox`: letters, digits, `.`, `_` and `-`, at least two, with a letter or a digit first
    SANDBOX_VOLUME=-v is not valid: it must be the name of a volume, such as `mcp-code-sandbox`: letters, digits, `.`, `_` and `-`, at least two, with a letter or a digit first
    SANDBOX_VOLUME=a:b is not valid: it must be the name of a volume, such as `mcp-code-sandbox`: letters, digits, `.`, `_` and `-`, at least two, with a letter or a digit first
    ");
    insta::assert_snapshot!(told("files", "/srv/files"), @"SANDBOX_VOLUME=files is not valid: it must be left out where SANDBOX_HOST_PATH is set: files are in a volume or in a directory of the engine's host");
}
