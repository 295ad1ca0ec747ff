//! The real program as a process: engines that come and go, signals, and sudden death.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use crate::support::dockerd::Dockerd;
use crate::support::server::Server;
use crate::support::wait::within;

/// How long a run may take to begin.
const BEGINNING: Duration = Duration::from_secs(10);
/// How long the server may take to notice that an engine or an image is there.
const RECOVERY: Duration = Duration::from_secs(5);
/// How long the server may take to notice that an engine is lost.
const LOSS: Duration = Duration::from_secs(3);
/// The time limit of all runs here, after which PID 1 ends them, and what the engine may add to it.
const DEADLINE: Duration = Duration::from_secs(20 + 10);

#[tokio::test]
async fn programs_use_their_files_on_an_engine_that_maps_users() {
    let mut engine = Dockerd::new().mapping_users();
    engine.start().await;
    engine.add_shell().await;
    let root = tempfile::tempdir().unwrap();
    let host = engine.host();
    let settings = [("DOCKER_HOST", host.as_str()), ("POOL_SIZE", "1")];
    let server = Server::start(root.path(), &settings).await;
    server.until_ready(RECOVERY).await;
    let options = engine
        .docker(&["info", "--format", "{{.SecurityOptions}}"])
        .await;
    assert!(options.unwrap().contains("name=userns"));
    let code = "echo hi > a && cat a && stat -c '%u %g' a && grep -c 4294967295 /proc/self/uid_map";
    let outcome = server.run(code).await.unwrap();
    let user = rustix::process::geteuid();
    let owner = if user.is_root() { 1000 } else { user.as_raw() };
    assert_eq!(
        outcome["stdout"],
        format!("hi\n{owner} {owner}\n1\n"),
        "{outcome}"
    );
}

#[tokio::test]
async fn the_server_outlives_its_engine() {
    let mut engine = Dockerd::new();
    let root = tempfile::tempdir().unwrap();
    let host = engine.host();
    // All containers belong to runs.
    let settings = [("DOCKER_HOST", host.as_str()), ("POOL_SIZE", "0")];
    let server = Server::start(root.path(), &settings).await;
    is_alive_but_not_ready(&server, "failed to reach the container engine").await;
    let lost = server.run("echo hi").await.unwrap();
    assert_eq!(
        (&lost["status"], &lost["success"]),
        (&"engine_lost".into(), &false.into()),
        "{lost}"
    );
    let hint = lost["hint"].as_str().unwrap();
    assert!(
        hint.contains("through no fault of it") && hint.contains("start the engine"),
        "{hint}"
    );

    engine.start().await;
    // The owner of Docker's socket may talk to it, but is not the user that programs run as.
    std::os::unix::fs::chown(engine.path("socket"), Some(1000), None).unwrap();
    let without_runner = async || {
        reason(&server)
            .await
            .contains("no runner image")
            .then_some(())
    };
    within(RECOVERY, "the engine is seen", without_runner).await;
    engine.add_shell().await;
    server.until_ready(RECOVERY).await;
    assert_eq!(server.run("id -u").await.unwrap()["stdout"], "1000\n");

    let run = async {
        (
            server.run("touch started; sleep 60").await.unwrap(),
            Instant::now(),
        )
    };
    let kill = async {
        started(root.path()).await;
        let containers = engine.containers("").await;
        engine.kill().await;
        (containers, Instant::now())
    };
    let ((lost, ended), (containers, killed)) = tokio::join!(run, kill);
    assert_eq!(lost["status"], "engine_lost", "{lost}");
    assert!(ended - killed < LOSS, "{:?}", ended - killed);
    assert!(!containers.is_empty());
    within(RECOVERY, "the loss is seen", async || {
        (server.get("/readyz").await.0 == 503).then_some(())
    })
    .await;
    is_alive_but_not_ready(&server, "").await;

    engine.start().await;
    server.until_ready(RECOVERY).await;
    assert_eq!(server.run("echo hi").await.unwrap()["stdout"], "hi\n");
    within(DEADLINE, "nothing is left of the run", async || {
        are_gone(&engine, &containers).await
    })
    .await;
    a_frozen_engine_holds_up_nobody(&engine, &server, root.path()).await;
}

async fn a_frozen_engine_holds_up_nobody(engine: &Dockerd, server: &Server, root: &Path) {
    fs::remove_file(root.join("data").join(workspace(root)).join("started")).unwrap();
    let run = async {
        let result = server.run_for(2, "touch started; sleep 60").await.unwrap();
        (result, Instant::now())
    };
    let freeze = async {
        started(root).await;
        let containers = engine.containers("").await;
        engine.signal(Signal::STOP);
        (containers, Instant::now())
    };
    let ((result, ended), (containers, frozen)) = tokio::join!(run, freeze);
    // For all that can be known, its program may have ended long ago.
    assert_eq!(result["status"], "engine_lost", "{result}");
    let hint = result["hint"].as_str().unwrap();
    assert!(hint.contains("stopped answering"), "{hint}");
    assert!(
        ended - frozen < Duration::from_secs(2) + LOSS,
        "{:?}",
        ended - frozen
    );
    assert_eq!(server.get("/healthz").await.0, 200);
    engine.signal(Signal::CONT);
    server.until_ready(RECOVERY).await;
    assert_eq!(server.run("echo hi").await.unwrap()["stdout"], "hi\n");
    within(DEADLINE, "nothing is left of the run", async || {
        are_gone(engine, &containers).await
    })
    .await;
}

async fn is_alive_but_not_ready(server: &Server, expected: &str) {
    assert_eq!(server.get("/healthz").await.0, 200);
    assert_eq!(server.get("/readyz").await.0, 503);
    let reason = reason(server).await;
    assert!(!reason.is_empty() && reason.contains(expected), "{reason}");
}

async fn reason(server: &Server) -> String {
    server.get("/readyz").await.1["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test]
async fn no_end_of_a_server_leaves_anything() {
    let mut engine = Dockerd::new();
    engine.start().await;
    engine.add_shell().await;
    told_to_stop_it_lets_runs_end(&engine).await;
    it_waits_no_longer_than_it_may(&engine, "1s", 1).await;
    it_waits_no_longer_than_it_may(&engine, "30s", 2).await;
    killed_it_leaves_its_containers_to_the_next(&engine).await;
}

async fn told_to_stop_it_lets_runs_end(engine: &Dockerd) {
    let root = tempfile::tempdir().unwrap();
    let mut server = serve(engine, root.path(), &[]).await;
    let run = server.run("touch started; sleep 2; echo done");
    let stop = async {
        started(root.path()).await;
        server.signal(Signal::TERM);
        let refused = async || match server.run("echo new").await {
            // Nobody listens any more, or the connection is closed.
            Err(_) => Some(()),
            Ok(result) => (result["code"] == "stopping").then_some(()),
        };
        within(Duration::from_secs(1), "new calls are refused", refused).await;
    };
    let (result, ()) = tokio::join!(run, stop);
    assert_eq!(result.unwrap()["stdout"], "done\n");
    assert!(server.ended(BEGINNING).await.success());
    assert_eq!(engine.containers("").await, [""; 0]);
}

/// Stops a server, by a number of signals, while a program runs that takes longer than it may.
async fn it_waits_no_longer_than_it_may(engine: &Dockerd, grace: &str, signals: usize) {
    let root = tempfile::tempdir().unwrap();
    let mut server = serve(engine, root.path(), &[("SHUTDOWN_GRACE", grace)]).await;
    let run = server.run("touch started; sleep 60");
    let stop = async {
        started(root.path()).await;
        for _ in 0..signals {
            server.signal(Signal::TERM);
            // Two that come at once count as one.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Instant::now()
    };
    let (result, told) = tokio::join!(run, stop);
    assert_eq!(result.unwrap()["status"], "cancelled");
    assert!(server.ended(BEGINNING).await.success());
    assert!(
        told.elapsed() < Duration::from_secs(5),
        "{:?}",
        told.elapsed()
    );
    assert_eq!(engine.containers("").await, [""; 0]);
}

async fn killed_it_leaves_its_containers_to_the_next(engine: &Dockerd) {
    let (shared, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut killed = serve(engine, shared.path(), &[]).await;
    let lost = killed.run("touch started; sleep 60");
    let survivors = async {
        started(shared.path()).await;
        let orphans = engine.containers("").await;
        fs::remove_file(
            shared
                .path()
                .join("data")
                .join(workspace(shared.path()))
                .join("started"),
        )
        .unwrap();
        let neighbour = serve(engine, shared.path(), &[]).await;
        let stranger = serve(engine, other.path(), &[]).await;
        let code = "touch started; while [ ! -e go ]; do sleep 0.05; done; echo done";
        let takeover = async {
            started(shared.path()).await;
            started(other.path()).await;
            assert!(
                are_running(engine, &orphans).await,
                "nobody touches what is in use"
            );
            killed.signal(Signal::KILL);
            killed.ended(LOSS).await;
            within(
                DEADLINE,
                "the program ends without its server",
                async || (!are_running(engine, &orphans).await).then_some(()),
            )
            .await;
            let next = serve(engine, shared.path(), &[]).await;
            within(RECOVERY, "the next server tidies up", async || {
                are_gone(engine, &orphans).await
            })
            .await;
            for root in [shared.path(), other.path()] {
                fs::write(root.join("data").join(workspace(root)).join("go"), "").unwrap();
            }
            next
        };
        tokio::join!(neighbour.run(code), stranger.run(code), takeover)
    };
    let (lost, (neighbours, strangers, _next)) = tokio::join!(lost, survivors);
    assert!(lost.is_err(), "its server was killed");
    for result in [neighbours.unwrap(), strangers.unwrap()] {
        assert_eq!(
            (&result["status"], &result["stdout"]),
            (&"ok".into(), &"done\n".into()),
            "{result}"
        );
    }
}

/// A server on an engine, ready to run programs.
async fn serve(engine: &Dockerd, root: &Path, settings: &[(&str, &str)]) -> Server {
    let host = engine.host();
    let settings: Vec<_> = settings
        .iter()
        .copied()
        .chain([("DOCKER_HOST", host.as_str()), ("POOL_SIZE", "1")])
        .collect();
    let server = Server::start(root, &settings).await;
    server.until_ready(RECOVERY).await;
    server
}

/// Waits until the program of the only conversation has made the file that says so.
async fn started(root: &Path) {
    let is_there = async || {
        let data = root.join("data");
        let mut entries = fs::read_dir(data).ok()?.flatten();
        entries
            .any(|entry| entry.path().join("started").exists())
            .then_some(())
    };
    within(BEGINNING, "the program runs", is_there).await;
}

/// The directory of the only conversation.
fn workspace(root: &Path) -> String {
    let names = fs::read_dir(root.join("data"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut names = names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.len() == 64);
    names.next().unwrap()
}

async fn are_running(engine: &Dockerd, containers: &[String]) -> bool {
    let running = engine
        .docker(&["ps", "--quiet", "--no-trunc"])
        .await
        .unwrap();
    containers
        .iter()
        .all(|container| running.contains(container))
}

async fn are_gone(engine: &Dockerd, containers: &[String]) -> Option<()> {
    let left = engine.containers("").await;
    (!containers.iter().any(|container| left.contains(container))).then_some(())
}
