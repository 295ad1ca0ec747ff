//! Hostile programs on Docker and on a cluster, in sandboxes of their own and in those that stay with a conversation.
//!
//! Each must end as its header says and harm nobody: the next program must run, in the same conversation and in
//! another, and find nothing of the previous one; and no container may be left. In sandboxes of their own this is
//! checked once after a list of them.
//!
//! What has no case on a cluster is about something else:
//!
//! - `small_disk_on_docker` needs a disk for itself, and so do those that count more files than a disk that is shared with
//!   other tests should have. What the server makes of them has nothing to do with what runs the programs.
//! - `a_flood_is_never_on_disk` is about Docker's logs. On a cluster the output is on its node's disk (`KUBE_LOG_LIMIT`),
//!   and what becomes of it there is tried in `kubernetes_executor`.
//! - `a_program_need_not_read_its_code` needs an image that is built for it, which nodes do not see.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::TestApp;
use crate::support::engines::Engine;
use crate::support::wait::within;

/// For each function one test on a server that starts a container for each run; and tests that call them all, one after
/// another: on a server where a conversation keeps its sandbox, and on a cluster.
macro_rules! in_cold_and_warm_sandboxes {
    ($($name:ident),* $(,)?) => {
        mod cold_on_docker {
            $(#[tokio::test]
            async fn $name() {
                let target = crate::attacks::Target::on(crate::attacks::Engine::Docker, &[]).await;
                super::$name(&target).await;
                target.finish().await;
            })*
        }

        #[rstest::rstest]
        #[case::on_warm_docker(crate::attacks::Engine::WarmDocker)]
        #[case::on_kubernetes(crate::attacks::Engine::Kubernetes)]
        #[case::on_warm_kubernetes(crate::attacks::Engine::WarmKubernetes)]
        #[tokio::test]
        async fn one_after_another(#[case] engine: crate::attacks::Engine) {
            let target = crate::attacks::Target::on(engine, &[]).await;
            $($name(&target).await;)*
            target.finish().await;
        }
    };
}

mod deleted;
mod disk;
mod exhaustion;
mod files;
mod isolation;
mod leftovers;
mod neighbours;
mod streams;

const ATTACKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/attacks");
/// How much later than its time limit a run may be answered.
const LATE: Duration = Duration::from_secs(3);
/// How long a harmless program may take right after an attack.
const NEIGHBOURLY: Duration = Duration::from_secs(5);
/// How long the work after an answer may take: to remove containers, or to clean them and park the next program.
const PATIENCE: Duration = Duration::from_mins(1);

/// What is attacked.
struct Target {
    app: TestApp,
    engine: Engine,
    /// Whether conversations keep their sandboxes.
    warm: bool,
}

impl Target {
    async fn on(engine: Engine, settings: &[(&str, &str)]) -> Self {
        let warm = engine.is_warm();
        let kept = [("SANDBOX_REUSE", "conversation")];
        let settings = [settings, if warm { &kept } else { &[] }].concat();
        Self {
            app: engine.server(&settings).await,
            engine,
            warm,
        }
    }

    /// Runs an attack in conversation `demo` and checks that it harmed nobody.
    async fn attack(&self, file: &str, seconds: u32) -> Value {
        self.attack_with(file, seconds, json!({})).await
    }

    /// Runs attacks that must find everything closed within the given seconds.
    async fn assert_harmless(&self, attacks: &[(&str, u32)]) {
        for (file, seconds) in attacks {
            let result = self.next_attack(file, *seconds).await;
            assert_eq!(verdict(&result), SAFE, "{file}: {result}");
        }
        self.assert_nobody_is_harmed("python").await;
    }

    /// One of a list, after which [`Self::assert_nobody_is_harmed`] is called. If each program has a new container, it
    /// is enough to check then.
    async fn next_attack(&self, file: &str, seconds: u32) -> Value {
        if self.warm {
            return self.attack(file, seconds).await;
        }
        let result = self.run(file, seconds, json!({})).await;
        self.settle().await;
        result
    }

    /// The same with variables in its environment.
    async fn attack_with(&self, file: &str, seconds: u32, environment: Value) -> Value {
        if self.warm {
            self.warm_up(language(file)).await;
        }
        let warm = self.app.starts("own");
        let result = self.run(file, seconds, environment).await;
        let warm = self.app.starts("own") - warm;
        assert_eq!(warm, u64::from(self.warm), "{file}: {result}");
        self.settle().await;
        self.assert_nobody_is_harmed(language(file)).await;
        result
    }

    /// Checks that the next program of the conversation is well, and so is another's.
    async fn assert_nobody_is_harmed(&self, language: &str) {
        tokio::join!(
            self.assert_well("demo", language),
            self.assert_well("another", "shell"),
        );
    }

    /// Makes sure that the conversation has a sandbox, in which the next program of that language will run.
    async fn warm_up(&self, language: &str) {
        let own = async || {
            let before = self.app.starts("own");
            self.assert_well("demo", language).await;
            self.settle().await;
            // The program had a sandbox, and the conversation has it again. On a slow machine, it may not be clean in
            // time.
            let view = self.app.app.parts.gate.catalog.view();
            let depth = self.app.app.parts.pool.depth(view.find(language)?);
            (self.app.starts("own") > before && depth.owned > 0).then_some(())
        };
        within(PATIENCE, "the conversation has a sandbox", own).await;
    }

    /// How often to check again: only what is used again can have changed since.
    fn rounds(&self, warm: usize) -> usize {
        if self.warm { warm } else { 1 }
    }

    /// Runs an attack and checks that its answer comes in time.
    async fn run(&self, file: &str, seconds: u32, environment: Value) -> Value {
        self.run_in("demo", file, seconds, environment).await
    }

    /// The same in another conversation.
    async fn run_in(
        &self,
        conversation: &str,
        file: &str,
        seconds: u32,
        environment: Value,
    ) -> Value {
        let code = std::fs::read_to_string(Path::new(ATTACKS).join(file)).unwrap();
        let arguments = json!({
            "conversationId": conversation,
            "language": language(file),
            "code": code,
            "timeoutSeconds": seconds,
            "environment": environment,
        });
        let started = Instant::now();
        let result = self.app.call("run_code", arguments).await;
        let limit = Duration::from_secs(seconds.into()) + LATE;
        assert!(
            started.elapsed() <= limit,
            "{file} took {:?}: {result}",
            started.elapsed()
        );
        result
    }

    /// Runs a harmless program, which must come soon and find its sandbox as good as new.
    async fn assert_well(&self, conversation: &str, language: &str) {
        // PID 1, the driver, the program, and in Python the one that shares the program's memory.
        let code = match language {
            "python" => {
                "import os\nown = {'main.py', '.matplotlib'}\nprint('well', set(os.listdir('/tmp')) - own or '', \
                 *os.listdir('/dev/shm'), [name for name in os.listdir('/proc') if name.isdigit()][4:] or '')"
            }
            "typescript" => {
                "import { readdirSync } from 'node:fs';\nconst own = /^(app|bun-.*|\\.bun)$/;\n\
                 console.log('well', ...readdirSync('/tmp').filter((name) => !own.test(name)), ...readdirSync('/dev/shm'), \
                 ...readdirSync('/proc').filter((name) => /^\\d+$/.test(name)).slice(3));"
            }
            _ => "echo well $(ls -A /tmp | grep -v ^main.sh) $(ls -A /dev/shm)",
        };
        let arguments =
            json!({ "conversationId": conversation, "language": language, "code": code });
        let started = Instant::now();
        let result = self.app.call("run_code", arguments).await;
        let said = result["stdout"].as_str().unwrap();
        assert_eq!(
            said.trim(),
            "well",
            "in conversation {conversation}: {result}"
        );
        assert!(
            started.elapsed() < NEIGHBOURLY,
            "in conversation {conversation}: {:?}",
            started.elapsed()
        );
    }

    /// Waits until the work after an answer is done: every container that is left waits for the next run.
    async fn settle(&self) {
        let parts = &self.app.app.parts;
        let settled = async || {
            let (pooled, owned) = parts.pool.count();
            let nothing_else = parts.launcher.live_count() == pooled + owned;
            (nothing_else && (self.warm || owned == 0)).then_some(())
        };
        within(PATIENCE, "all containers are gone or clean", settled).await;
    }

    /// Stops the server and asks the engine itself what is left, since the server might have forgotten a container.
    async fn finish(&self) {
        self.app.assert_nothing_is_left().await;
        let gone = async || self.containers().await.is_empty().then_some(());
        within(PATIENCE, "the containers are gone", gone).await;
    }

    /// All containers of this root, as the engine has them.
    async fn containers(&self) -> Vec<String> {
        let root = std::fs::read_to_string(self.app.root().join(".root-id")).unwrap();
        let listed = self.app.engine.containers("sandbox.root", &root).await;
        let mut ids: Vec<_> = listed
            .unwrap()
            .into_iter()
            .map(|found| found.id.0)
            .collect();
        ids.sort();
        ids
    }
}

fn language(file: &str) -> &'static str {
    match Path::new(file)
        .extension()
        .and_then(|extension| extension.to_str())
    {
        Some("py") => "python",
        Some("sh") => "shell",
        Some("ts") => "typescript",
        other => panic!("no language for {other:?}"),
    }
}

/// A program that finds no hole prints `SAFE` at its end, so that one that did not get that far does not pass.
const SAFE: (&str, Option<i64>, &str) = ("ok", Some(0), "SAFE");

/// Status, exit code and last line.
fn verdict(result: &Value) -> (&str, Option<i64>, &str) {
    let last = result["stdout"].as_str().unwrap().lines().last();
    let (status, exit_code) = end(result);
    (status, exit_code, last.unwrap_or_default())
}

fn assert_safe(result: &Value) {
    assert_eq!(verdict(result), SAFE, "{result}");
}

/// Status and exit code.
fn end(result: &Value) -> (&str, Option<i64>) {
    (
        result["status"].as_str().unwrap(),
        result["exitCode"].as_i64(),
    )
}

/// What conversations have left behind and nobody can see is gone. Empty directories may outlive it for a while.
fn assert_nothing_is_out_of_sight(app: &TestApp) {
    for entry in std::fs::read_dir(app.root().join(".tmp")).unwrap() {
        let path = entry.unwrap().path();
        let left = std::fs::read_dir(&path).map(Iterator::count);
        assert!(left.is_ok_and(|count| count == 0), "{}", path.display());
    }
}
