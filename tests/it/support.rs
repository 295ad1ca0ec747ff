//! A whole server in the test's own process, on the fake engine or on the real one.

#[cfg(feature = "kubernetes")]
pub(crate) mod balancer;
pub(crate) mod cluster;
pub(crate) mod dockerd;
pub(crate) mod engines;
pub(crate) mod image;
pub(crate) mod issuer;
pub(crate) mod netns;
#[cfg(feature = "kubernetes")]
pub(crate) mod pods;
pub(crate) mod server;
#[cfg(feature = "kubernetes")]
pub(crate) mod starve;
pub(crate) mod stdio;
pub(crate) mod wait;
pub(crate) mod weak;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use base64::Engine as _;
use http_body_util::BodyExt as _;
use mcp_code_sandbox::app::App;
use mcp_code_sandbox::config::Config;
use mcp_code_sandbox::executor::docker::DockerExecutor;
use mcp_code_sandbox::executor::fake::FakeExecutor;
use mcp_code_sandbox::executor::{Executor, LaneInfo};
use mcp_code_sandbox::gate::proof::ProofState;
use mcp_code_sandbox::principal::Principal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

use self::cluster::Share;
use self::engines::{Configured, TestEngine};

pub(crate) const TOKEN: &str = "7f3a9c51e8d24b60a1f7c3d9";
/// Settings of a server on a cluster, which these tests do without.
pub(crate) const ON_A_CLUSTER: [(&str, &str); 4] = [
    ("EXECUTOR", "kubernetes"),
    ("KUBE_VOLUME_CLAIM", "sandboxes"),
    ("MAX_CONCURRENT_RUNS", "4"),
    ("FIREWALL_REPORT", ""),
];
pub(crate) const SECRET: &str = "c0ffee5a9d1b48e7a2f36c8d04be917f";

/// Longest wait for something that happens after an answer, on a machine that does other things too.
const EVENTUALLY: Duration = Duration::from_mins(1);

/// A server. Dropping it removes its files; containers must be gone by then.
pub(crate) struct TestApp {
    pub(crate) router: Router,
    pub(crate) app: App,
    pub(crate) fake: Option<FakeExecutor>,
    /// What runs its containers.
    pub(crate) engine: Arc<dyn Executor>,
    /// Servers on one directory share it.
    root: Arc<TempDir>,
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("no JSON: {} {}", self.status, self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

impl TestApp {
    /// On the fake engine, with a `shell` runner.
    pub(crate) async fn on_fake() -> Self {
        Self::on_fake_with(&[]).await
    }

    pub(crate) async fn on_fake_with(settings: &[(&str, &str)]) -> Self {
        Self::on_fake_speaking(&["shell"], settings).await
    }

    /// On the fake engine, whose every language is the same few lines of shell.
    pub(crate) async fn on_fake_speaking(languages: &[&str], settings: &[(&str, &str)]) -> Self {
        let fake = FakeExecutor::with_languages(languages);
        let mut app = Self::build(settings, Arc::new(fake.clone())).await;
        app.fake = Some(fake);
        app
    }

    /// The same with a `notebook` runner, which has kernels.
    pub(crate) async fn on_fake_with_notebook(settings: &[(&str, &str)]) -> Self {
        Self::on_fake_with_kernels("notebook", settings).await
    }

    /// The same with a runner of this language that has kernels.
    pub(crate) async fn on_fake_with_kernels(language: &str, settings: &[(&str, &str)]) -> Self {
        let fake = FakeExecutor::with_languages(&["shell"]);
        fake.add_notebook(language, 1);
        let mut app = Self::build(settings, Arc::new(fake.clone())).await;
        app.fake = Some(fake);
        app
    }

    /// On the real engine, with the runner images that are there.
    pub(crate) async fn on_docker() -> Self {
        Self::on_docker_with(&[]).await
    }

    pub(crate) async fn on_docker_with(settings: &[(&str, &str)]) -> Self {
        let executor = Arc::new(DockerExecutor::new(None));
        let app = Self::build(settings, executor).await;
        let view = app.app.parts.gate.catalog.view();
        assert!(
            !view.runners.is_empty(),
            "no runner images: run ./test.sh, or ./build.sh first ({:?})",
            view.engine
        );
        app
    }

    /// On the cluster, with the runners that it has.
    pub(crate) async fn on_kubernetes_with(settings: &[(&str, &str)]) -> Self {
        Self::on_kubernetes(settings, Arc::new(Configured)).await
    }

    /// The same by an executor that goes by the settings.
    pub(crate) async fn on_kubernetes(
        settings: &[(&str, &str)],
        executor: Arc<impl TestEngine>,
    ) -> Self {
        let share = Share::new();
        let own = share.settings("");
        let own = own.iter().map(|(name, value)| (*name, value.as_str()));
        let settings: Vec<_> = settings.iter().copied().chain(own).collect();
        let app = Self::at(share.into_root(), &settings, executor).await;
        app.app.parts.gate.proof.set(ProofState::Held);
        let view = app.app.parts.gate.catalog.view();
        assert!(view.find("shell").is_some(), "{:?}", view.engine);
        app
    }

    /// On any engine, whose sandbox counts as proved.
    pub(crate) async fn build(settings: &[(&str, &str)], executor: Arc<impl TestEngine>) -> Self {
        let app = Self::unproved(settings, executor).await;
        app.app.parts.gate.proof.set(ProofState::Held);
        app
    }

    /// On any engine, whose sandbox was not proved: no run begins before it is.
    pub(crate) async fn unproved(
        settings: &[(&str, &str)],
        executor: Arc<impl TestEngine>,
    ) -> Self {
        let root = Arc::new(tempfile::tempdir().unwrap());
        Self::at(root, settings, executor).await
    }

    /// Another server on the directory of one, on a fake engine of its own.
    pub(crate) async fn beside(other: &Self) -> Self {
        let executor = Arc::new(FakeExecutor::with_languages(&["shell"]));
        let app = Self::at(Arc::clone(&other.root), &[], executor).await;
        app.app.parts.gate.proof.set(ProofState::Held);
        app
    }

    /// The same server on the real engine after its end, with other settings.
    pub(crate) async fn restarted_on_docker(self, settings: &[(&str, &str)]) -> Self {
        self.app.shut_down().await;
        let root = Arc::clone(&self.root);
        // The lock on what is in the making is its, as long as it lives.
        drop(self);
        let app = Self::at(root, settings, Arc::new(DockerExecutor::new(None))).await;
        app.app.parts.gate.proof.set(ProofState::Held);
        app
    }

    /// On a directory that other servers may share.
    pub(crate) async fn at(
        root: Arc<TempDir>,
        settings: &[(&str, &str)],
        executor: Arc<impl TestEngine>,
    ) -> Self {
        Self::configured(root, settings, executor, |_| ()).await
    }

    /// With settings that no variable can set.
    pub(crate) async fn on_fake_changed(change: impl FnOnce(&mut Config)) -> Self {
        let fake = Arc::new(FakeExecutor::with_languages(&["shell"]));
        let root = Arc::new(tempfile::tempdir().unwrap());
        let app = Self::configured(root, &[], fake, change).await;
        app.app.parts.gate.proof.set(ProofState::Held);
        app
    }

    async fn configured(
        root: Arc<TempDir>,
        settings: &[(&str, &str)],
        executor: Arc<impl TestEngine>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut config = config(root.path(), settings);
        change(&mut config);
        let platform = executor.of(&config);
        let engine = Arc::clone(&platform.executor);
        let app = App::on(platform, config).unwrap();
        let router = app.start();
        app.parts.gate.catalog.first_poll().await;
        Self {
            router,
            app,
            fake: None,
            engine,
            root,
        }
    }

    /// `SANDBOX_ROOT`.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The directory of a conversation.
    pub(crate) fn workspace(&self, conversation: &str) -> PathBuf {
        let (files, caller) = (&self.app.parts.files, Principal::local());
        let conversation = files.conversation(&caller, conversation.parse().unwrap());
        self.root().join(conversation.key().as_str())
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(get(path).body(Body::empty()).unwrap()).await
    }

    /// Posts a body to `/mcp` as the simplest `curl` call does.
    pub(crate) async fn post(&self, body: impl Into<Body>) -> Answer {
        self.send(post().body(body.into()).unwrap()).await
    }

    /// Sends a JSON-RPC request; returns the whole response object.
    pub(crate) async fn rpc(&self, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(message.to_string()).await.json()
    }

    /// Calls a tool; returns its structured result.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let response = self
            .rpc(
                "tools/call",
                json!({ "name": tool, "arguments": arguments }),
            )
            .await;
        let result = &response["result"];
        let text: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap_or_default())
                .unwrap_or_else(|_| panic!("no result: {response}"));
        assert_eq!(
            text, result["structuredContent"],
            "the text block is the same object"
        );
        text
    }

    /// Runs a program in conversation `demo`.
    pub(crate) async fn run(&self, language: &str, code: &str) -> Value {
        self.call(
            "run_code",
            json!({ "conversationId": "demo", "language": language, "code": code }),
        )
        .await
    }

    pub(crate) async fn upload(&self, name: &str, content: &[u8]) -> Value {
        let content = base64::engine::general_purpose::STANDARD.encode(content);
        self.call(
            "upload_file",
            json!({ "conversationId": "demo", "filename": name, "content": content }),
        )
        .await
    }

    /// Downloads by a link from a result.
    pub(crate) async fn download(&self, url: &Value) -> Answer {
        let url = url.as_str().unwrap();
        self.get(url.strip_prefix("http://localhost:8080").unwrap())
            .await
    }

    /// Waits until `count` sandboxes are parked for new conversations of a language.
    pub(crate) async fn parked(&self, language: &str, count: usize) {
        let ready = || {
            let view = self.app.parts.gate.catalog.view();
            view.find(language)
                .map_or(0, |runner| self.app.parts.pool.ready(runner))
        };
        eventually("sandboxes are parked", || ready() >= count).await;
    }

    /// How many runs got their sandbox that way: `own`, `pool`, `cold` or `kernel`.
    pub(crate) fn starts(&self, way: &str) -> u64 {
        let metrics = self.app.parts.metrics.render(|_| {});
        let series = format!("mcp_sandbox_run_starts_total{{way=\"{way}\"}} ");
        let count = metrics.lines().find_map(|line| line.strip_prefix(&series));
        count.unwrap().parse().unwrap()
    }

    /// Shuts the server down, and fails if a container is left.
    pub(crate) async fn assert_nothing_is_left(&self) {
        self.app.shut_down().await;
        if let Some(fake) = &self.fake {
            assert_eq!(fake.container_count(), 0);
            assert_eq!(self.app.parts.launcher.live_count(), 0);
            assert_eq!(self.own(fake.lanes().0), []);
            return;
        }
        // An engine that builds an image for another test may need longer than the server waits.
        eventually("no container is left", || {
            self.app.parts.launcher.live_count() == 0
        })
        .await;
        let server = &self.app.parts.launcher.labels(&[])["sandbox.server"];
        let left = self.engine.containers("sandbox.server", server).await;
        let left = left.unwrap();
        assert!(left.is_empty(), "the engine has {left:?}");
        let lanes = self.own(self.engine.lanes().await.unwrap());
        assert_eq!(lanes, []);
    }

    /// Those of these lanes that are the server's.
    fn own(&self, mut lanes: Vec<LaneInfo>) -> Vec<LaneInfo> {
        let server = &self.app.parts.launcher.labels(&[])["sandbox.server"];
        lanes.retain(|lane| lane.labels.get("sandbox.server") == Some(server));
        lanes
    }
}

/// A configuration for tests.
pub(crate) fn config(root: &Path, settings: &[(&str, &str)]) -> Config {
    let root = root.display().to_string();
    let lookup = |name: &str| {
        let set = settings
            .iter()
            .find(|(setting, _)| *setting == name)
            .map(|(_, value)| (*value).to_owned());
        set.or_else(|| match name {
            "MCP_API_TOKEN" => Some(TOKEN.to_owned()),
            "FILE_SECRET" => Some(SECRET.to_owned()),
            "SANDBOX_ROOT" => Some(root.clone()),
            "DISK_FREE_FLOOR" => Some("1m".to_owned()),
            // Tests that want warm sandboxes say so.
            "POOL_SIZE" => Some("0".to_owned()),
            "SANDBOX_REUSE" => Some("never".to_owned()),
            // And those that want a network: no rules are read back, and nothing is tried.
            "FIREWALL_REPORT" => Some("/nowhere".to_owned()),
            _ => None,
        })
    };
    Config::from_lookup(&lookup).unwrap()
}

pub(crate) fn get(path: &str) -> axum::http::request::Builder {
    Request::get(path).header("host", "localhost:8080")
}

/// A request to `/mcp` with the token and nothing that clients of newer revisions send.
pub(crate) fn post() -> axum::http::request::Builder {
    Request::post("/mcp")
        .header("host", "localhost:8080")
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("content-type", "application/json")
}

/// Waits for something that happens after an answer.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(
        tokio::time::timeout(EVENTUALLY, wait).await.is_ok(),
        "did not happen in time: {what}"
    );
}

/// Removes from a result what differs from run to run.
pub(crate) fn stable(mut value: Value) -> Value {
    for field in ["durationMs", "usage", "runId"] {
        if let Some(field) = value.get_mut(field) {
            *field = "…".into();
        }
    }
    for file in value
        .get_mut("files")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let url = file["url"].as_str().unwrap_or_default();
        let (_, tail) = url.rsplit_once('/').unwrap_or_default();
        file["url"] = format!("…/{tail}").into();
    }
    value
}
