//! Addresses at which no engine answers, and engines that cannot do what the settings ask for: what operators and
//! callers are told.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Json, Response};
use mcp_code_sandbox::executor::docker::DockerExecutor;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::task::TaskTracker;

use crate::support::server::{Server, call, command, free_address};
use crate::support::{TestApp, eventually};

/// A user who owns nothing.
const NOBODY: u32 = 65534;

/// Why the selftest of an engine's address could not begin, as that user of the machine.
async fn reason_for(host: &str, user: Option<u32>) -> String {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut selftest = command(root.path(), &[("DOCKER_HOST", host)]);
    if let Some(user) = user {
        selftest.uid(user).gid(user);
    }
    let output = selftest.arg("selftest").output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{said}");
    let reason = said.split("nothing could be tried: ").nth(1);
    reason.unwrap_or(&said).trim().to_owned()
}

/// The reason at a path of a directory, which is left out of it.
async fn at_path(directory: &Path, name: &str, user: Option<u32>) -> String {
    let host = format!("unix://{}/{name}", directory.display());
    let reason = reason_for(&host, user).await;
    reason.replace(&directory.display().to_string(), "/run")
}

#[tokio::test]
async fn a_socket_without_an_engine_names_the_cause() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    drop(StdListener::bind(path("dead.sock")).unwrap());
    let _closed = StdListener::bind(path("closed.sock")).unwrap();
    fs::set_permissions(path("closed.sock"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path("file"), "").unwrap();
    fs::create_dir(path("hidden")).unwrap();
    let _hidden = StdListener::bind(path("hidden/engine.sock")).unwrap();
    fs::set_permissions(path("hidden"), fs::Permissions::from_mode(0o700)).unwrap();
    let mut told = Vec::new();
    for (name, user) in [
        ("dead.sock", None),
        ("file", None),
        ("hidden", None),
        ("nowhere", None),
        ("closed.sock", Some(NOBODY)),
        ("hidden/engine.sock", Some(NOBODY)),
    ] {
        told.push(at_path(directory.path(), name, user).await);
    }
    insta::assert_snapshot!(told.join("\n"), @"
    failed to reach the container engine: unix:///run/dead.sock: connection refused, nothing listens there: start the engine, or set DOCKER_HOST to its address
    failed to reach the container engine: unix:///run/file: this is a file and not a socket: set DOCKER_HOST to the address of the engine's socket
    failed to reach the container engine: unix:///run/hidden: this is a directory and not a socket: set DOCKER_HOST to the address of the engine's socket
    failed to reach the container engine: unix:///run/nowhere: there is no such file: start the engine, or set DOCKER_HOST to the address of its socket
    failed to reach the container engine: unix:///run/closed.sock: permission denied: this user may not use the socket. Add the user to the group docker (`sudo usermod -aG docker USER`) and log in again, or set DOCKER_GID where the server is a container
    failed to reach the container engine: unix:///run/hidden/engine.sock: permission denied: this user may not use the socket. Add the user to the group docker (`sudo usermod -aG docker USER`) and log in again, or set DOCKER_GID where the server is a container
    ");
}

#[tokio::test]
async fn an_address_without_an_engine_names_the_cause() {
    let nobody = free_address().await;
    let refused = reason_for(&format!("tcp://{nobody}"), None).await;
    let strangers = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stranger = strangers.local_addr().unwrap();
    let site = Router::new().fallback(|| async { "<html>Welcome</html>" });
    let site = TaskTracker::new().spawn(axum::serve(strangers, site).into_future());
    let page = reason_for(&format!("tcp://{stranger}"), None).await;
    site.abort();
    let lost = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let missing = lost.local_addr().unwrap();
    let site = Router::new().fallback(|| async { (StatusCode::NOT_FOUND, "no such page\n") });
    let site = TaskTracker::new().spawn(axum::serve(lost, site).into_future());
    let not_found = reason_for(&format!("tcp://{missing}"), None).await;
    site.abort();
    let told = [refused, page, not_found].join("\n");
    let told = told
        .replace(&nobody.to_string(), "127.0.0.1:1")
        .replace(&stranger.to_string(), "127.0.0.1:2")
        .replace(&missing.to_string(), "127.0.0.1:3");
    insta::assert_snapshot!(told, @"
    failed to reach the container engine: tcp://127.0.0.1:1: connection refused, nothing listens there: start the engine, or set DOCKER_HOST to its address
    failed to reach the container engine: tcp://127.0.0.1:2: what answers there is no container engine (its answer is no JSON): set DOCKER_HOST to the engine's address
    failed to reach the container engine: tcp://127.0.0.1:3: what answers there is no container engine (status 404 no such page): set DOCKER_HOST to the engine's address
    ");
}

/// An engine imitated by a few lines.
#[derive(Clone)]
struct Imitation {
    /// What `docker info` reports.
    info: Value,
    /// How it refuses every container; without, it creates them and fails to start them.
    refusal: &'static str,
    /// The weights that containers were created with.
    weights: Arc<Mutex<Vec<Value>>>,
}

impl Imitation {
    /// Listens at a path until the returned task is aborted.
    fn listen(self, path: &Path) -> tokio::task::JoinHandle<std::io::Result<()>> {
        let routes = Router::new().fallback(imitate).with_state(self);
        TaskTracker::new()
            .spawn(axum::serve(UnixListener::bind(path).unwrap(), routes).into_future())
    }
}

/// Lists images as early containerd image stores do: without their labels.
async fn imitate(State(engine): State<Imitation>, uri: Uri, body: Bytes) -> Response {
    let path = uri.path();
    if path.ends_with("/version") {
        Json(json!({ "ApiVersion": "1.41", "Version": "1" })).into_response()
    } else if path.ends_with("/info") {
        Json(engine.info).into_response()
    } else if path.ends_with("/_ping") {
        "OK".into_response()
    } else if path.ends_with("/images/json") {
        Json(json!([{
            "Id": "sha256:1", "ParentId": "", "RepoTags": ["runner:latest"], "RepoDigests": [], "Created": 1,
            "Size": 1, "SharedSize": -1, "Labels": null, "Containers": -1,
        }]))
        .into_response()
    } else if path.contains("/images/") {
        let labels = json!({ "sandbox.runner": "true", "sandbox.language": "python" });
        Json(json!({ "Id": "sha256:1", "Config": { "Labels": labels, "Cmd": ["python3", "-"] } }))
            .into_response()
    } else if path.ends_with("/containers/json") {
        Json(json!([])).into_response()
    } else if path.ends_with("/containers/create") && engine.refusal.is_empty() {
        let mut wanted: Value = serde_json::from_slice(&body).unwrap();
        let weight = wanted["HostConfig"]["BlkioWeight"].take();
        engine.weights.lock().push(weight);
        Json(json!({ "Id": "c1", "Warnings": [] })).into_response()
    } else if path.ends_with("/containers/create") {
        let refusal = json!({ "message": engine.refusal });
        (StatusCode::BAD_REQUEST, Json(refusal)).into_response()
    } else if path.ends_with("/attach") {
        let upgrade = [("connection", "upgrade"), ("upgrade", "tcp")];
        (StatusCode::SWITCHING_PROTOCOLS, upgrade).into_response()
    } else if path.ends_with("/start") {
        let weight = engine.weights.lock().last().cloned();
        let reason = match weight {
            Some(Value::Null) => "no space",
            _ => "openat2 /sys/fs/cgroup/docker/c1/io.weight: no such file or directory",
        };
        let failure = json!({ "message": reason });
        (StatusCode::INTERNAL_SERVER_ERROR, Json(failure)).into_response()
    } else if path.ends_with("/events") {
        axum::body::Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>())
            .into_response()
    } else {
        StatusCode::NOT_FOUND.into_response()
    }
}

/// A directory with an engine in it, and the engine's address.
fn engine(info: Value, refusal: &'static str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("engine.sock");
    let weights = Arc::default();
    Imitation {
        info,
        refusal,
        weights,
    }
    .listen(&socket);
    let host = format!("unix://{}", socket.display());
    (directory, host)
}

#[tokio::test]
async fn more_cores_than_the_engine_has_are_refused_at_the_start() {
    let (_directory, host) = engine(json!({ "NCPU": 2, "CpuCfsQuota": true }), "");
    for arguments in [&["check-config"][..], &["serve"], &["selftest"]] {
        let output = call(arguments, &[("DOCKER_HOST", &host), ("RUN_CPUS", "2.5")]).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty());
        assert_eq!(
            said,
            "RUN_CPUS=2.5 is not valid: the container engine has 2 cores, so it must be at most 2\n"
        );
    }
    for cpus in ["2", "0.5", "0"] {
        let output = call(
            &["check-config"],
            &[("DOCKER_HOST", &host), ("RUN_CPUS", cpus)],
        )
        .await;
        assert!(output.status.success(), "{cpus}");
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains(&format!("RUN_CPUS={cpus}\n")), "{shown}");
    }
}

#[tokio::test]
async fn a_kernel_without_quotas_asks_for_no_limit_at_the_start() {
    let (_directory, host) = engine(json!({ "NCPU": 2, "CpuCfsQuota": false }), "");
    let output = call(&["check-config"], &[("DOCKER_HOST", &host)]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    insta::assert_snapshot!(said, @"RUN_CPUS is not valid: the kernel of the container engine cannot limit processor time (it has no CFS quotas), so it must be 0, which leaves the limit out");
    let output = call(
        &["check-config"],
        &[("DOCKER_HOST", &host), ("RUN_CPUS", "0")],
    )
    .await;
    assert!(output.status.success());
}

#[tokio::test]
async fn users_of_their_own_are_refused_with_a_rootless_engine() {
    let (_directory, host) = engine(json!({ "SecurityOptions": ["name=rootless"] }), "");
    let settings = [("DOCKER_HOST", &*host), ("SANDBOX_UIDS", "70000-99999")];
    for arguments in [&["check-config"][..], &["serve"], &["selftest"]] {
        let output = call(arguments, &settings).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {said}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(said, @"SANDBOX_UIDS=70000-99999 is not valid: the container engine is rootless, so the users in its containers are others on the host, and share no files with the server. Leave SANDBOX_UIDS out, or let DOCKER_HOST be an engine that runs as root");
        }
    }
}

/// A server that was there before its engine.
#[tokio::test]
async fn an_engine_that_comes_later_and_has_too_few_cores_is_not_called_a_weak_sandbox() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("engine.sock");
    let host = format!("unix://{}", socket.display());
    let settings = [("DOCKER_HOST", &*host), ("RUN_CPUS", "3")];
    let server = Server::start(directory.path(), &settings).await;
    let info = json!({ "NCPU": 2, "CpuCfsQuota": true });
    Imitation {
        info,
        refusal: "",
        weights: Arc::default(),
    }
    .listen(&socket);
    let unfit = "failed to use the container engine: RUN_CPUS=3 is not valid: the container engine has 2 cores, so it \
                 must be at most 2";
    let is_told = async || (server.get("/readyz").await.1["reason"] == unfit).then_some(());
    crate::support::wait::within(std::time::Duration::from_secs(10), "it is told", is_told).await;
}

#[tokio::test]
async fn an_engine_that_refuses_the_processor_limit_is_not_called_a_weak_sandbox() {
    let refusal = "NanoCPUs can not be set, as your kernel does not support CPU CFS scheduler or the cgroup is not \
                   mounted";
    // It reports nothing of it beforehand.
    let (_directory, host) = engine(json!({}), refusal);
    let executor = Arc::new(DockerExecutor::new(Some(&host)));
    let app = TestApp::unproved(&[], executor).await;
    app.app.prove();
    eventually("it is checked", || !app.app.parts.gate.proof.is_pending()).await;
    // The runner was found, by the labels that only its own details have.
    let ready = app.get("/readyz").await.json();
    assert_eq!(ready["runners"], json!(["python"]));
    insta::assert_snapshot!(ready["reason"].as_str().unwrap(), @"no code is run here, because the server's sandbox could not be checked: it could not be tried: engine_lost The server could not run the program, through no fault of it: failed to start a sandbox: failed to create a container: Docker responded with status code 400: NanoCPUs can not be set, as your kernel does not support CPU CFS scheduler or the cgroup is not mounted: set RUN_CPUS=0, which leaves the limit on processor time out. Trying again does not help: the server's operator has to mend this. Its operator can see more with `mcp-code-sandbox selftest`");
    assert_eq!(app.run("python", "1").await["code"], "sandbox_not_proven");
}

#[tokio::test]
async fn a_kernel_without_weights_of_disks_is_asked_for_none_the_second_time() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("engine.sock");
    let weights = Arc::<Mutex<Vec<Value>>>::default();
    Imitation {
        info: json!({}),
        refusal: "",
        weights: weights.clone(),
    }
    .listen(&socket);
    let host = format!("unix://{}", socket.display());
    let app = TestApp::unproved(&[], Arc::new(DockerExecutor::new(Some(&host)))).await;
    app.app.prove();
    eventually("it is checked", || !app.app.parts.gate.proof.is_pending()).await;
    let reason = app.get("/readyz").await.json()["reason"].to_string();
    assert!(reason.contains("no space"), "{reason}");
    let asked = weights.lock();
    assert!(asked[0].is_u64() && asked[1].is_null(), "{asked:?}");
    assert!(asked[2..].iter().all(Value::is_null), "{asked:?}");
}

/// What a caller is told while the engine is not there.
async fn hint(app: &TestApp) -> String {
    let outcome = app.run("python", "1").await;
    assert_eq!(outcome["status"], "engine_lost", "{outcome}");
    outcome["hint"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn callers_try_again_only_where_it_helps() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("engine.sock");
    fs::write(&socket, "").unwrap();
    let host = format!("unix://{}", socket.display());
    let app = TestApp::unproved(&[], Arc::new(DockerExecutor::new(Some(&host)))).await;
    let is_up = || app.app.parts.gate.catalog.engine().is_up();
    // A file in place of the socket.
    let file = hint(&app).await.replace(&host, "unix:///engine.sock");
    fs::remove_file(&socket).unwrap();
    let info = json!({ "NCPU": 2, "CpuCfsQuota": true });
    let engine = Imitation {
        info,
        refusal: "",
        weights: Arc::default(),
    }
    .listen(&socket);
    eventually("it answers", is_up).await;
    // An engine that has answered is probably being restarted.
    engine.abort();
    fs::remove_file(&socket).unwrap();
    eventually("it is gone", || !is_up()).await;
    let restarting = hint(&app).await.replace(&host, "unix:///engine.sock");
    insta::assert_snapshot!([file, restarting].join("\n"), @"
    The server could not run the program, through no fault of it: failed to reach the container engine: unix:///engine.sock: this is a file and not a socket: set DOCKER_HOST to the address of the engine's socket. Trying again does not help: the server's operator has to mend this.
    The server could not run the program, through no fault of it: failed to reach the container engine: unix:///engine.sock: there is no such file: start the engine, or set DOCKER_HOST to the address of its socket. Try again in a few seconds.
    ");
}
