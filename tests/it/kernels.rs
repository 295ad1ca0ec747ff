//! Stateful runs, as far as they are the same in every language: one suite on the fake engine and on the real one.

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::engines::Engine;
use crate::support::wait::within;
use crate::support::{TestApp, eventually};

mod alone;
mod beside;

/// How long a kernel may take to start on a busy machine.
const BEGINNING: Duration = Duration::from_mins(1);

/// The same few programs in the language of an engine's kernel.
#[derive(Clone, Copy)]
struct Dialect {
    language: &'static str,
    set: &'static str,
    show: &'static str,
    fail: &'static str,
    sleep: &'static str,
    nap: &'static str,
    deaf: &'static str,
    leave: &'static str,
    flood: &'static str,
    file: &'static str,
    show_env: &'static str,
    /// A variable that an interpreter reads when it starts.
    early: &'static str,
}

const FAKE: Dialect = Dialect {
    language: "notebook",
    set: "X=41",
    show: "echo $X",
    fail: "nonsense",
    sleep: "echo begun\nsleep 60",
    nap: "sleep 0.3\necho napped",
    deaf: "trap\nsleep 60",
    leave: "exit 3",
    flood: "yes",
    file: "echo made > out.txt",
    show_env: "echo $GREETING",
    early: "EARLY_BIRD",
};

const PYTHON: Dialect = Dialect {
    language: "python",
    set: "X = 41",
    show: "print(globals().get('X', ''))",
    fail: "1 / 0",
    sleep: "import time\nprint('begun')\ntime.sleep(60)",
    nap: "import time\ntime.sleep(0.3)\nprint('napped')",
    deaf: "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)",
    leave: "import os\nos._exit(3)",
    flood: "while True: print('y' * 4096)",
    file: "open('out.txt', 'w').write('made\\n');",
    show_env: "import os\nprint(os.environ['GREETING'])",
    early: "TZ",
};

const TYPESCRIPT: Dialect = Dialect {
    language: "typescript",
    set: "const X: number = 41",
    show: "console.log(globalThis.X ?? '')",
    fail: "throw new Error('no')",
    sleep: "console.log('begun'); while (true) {}",
    nap: "await Bun.sleep(300); console.log('napped')",
    deaf: "Bun.sleepSync(60_000)",
    leave: "process.reallyExit(3)",
    flood: "while (true) console.log('y'.repeat(4096))",
    file: "await Bun.write('out.txt', 'made\\n'); undefined",
    show_env: "console.log(process.env.GREETING)",
    early: "TZ",
};

const SOON: (&str, &str) = ("CALL_BUDGET", "100ms");
const LITTLE: (&str, &str) = ("RUN_OUTPUT_LIMIT", "1k");
const SHORT: (&str, &str) = ("KERNEL_TIMEOUT", "1s");
const ONE: (&str, &str) = ("MAX_KERNELS", "1");

impl Dialect {
    fn arguments(&self, code: &str) -> Value {
        json!({ "conversationId": "demo", "language": self.language, "code": code, "stateful": true })
    }

    /// The outcome of a cell, however long it takes.
    async fn cell(&self, app: &TestApp, code: &str) -> Value {
        self.cell_with(app, code, json!({})).await
    }

    /// The same with more arguments.
    async fn cell_with(&self, app: &TestApp, code: &str, more: Value) -> Value {
        let mut answer = self.answer(app, code, more).await;
        while answer["status"] == "running" {
            let wait = json!({ "runId": answer["runId"], "waitSeconds": 10 });
            answer = app.call("get_run", wait).await;
        }
        answer
    }

    /// What the call returns.
    async fn answer(&self, app: &TestApp, code: &str, more: Value) -> Value {
        let mut arguments = self.arguments(code);
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        app.call("run_code", arguments).await
    }

    /// The outcome of a run that is not a cell.
    async fn run(&self, app: &TestApp, code: &str) -> Value {
        self.cell_with(app, code, json!({ "stateful": false }))
            .await
    }

    /// A cell that goes on after its answer, once it has begun.
    async fn begun(&self, app: &TestApp) -> Value {
        let running = self
            .answer(app, self.sleep, json!({ "timeoutSeconds": 60 }))
            .await;
        let said = async || {
            let run = app.call("get_run", json!({ "runId": running["runId"] }));
            let run = run.await;
            assert_eq!(run["status"], "running", "{run}");
            run["output"].as_str()?.contains("begun").then_some(())
        };
        within(BEGINNING, "the cell has begun", said).await;
        running
    }

    /// Begins with a new kernel that has a variable.
    async fn set_x(&self, app: &TestApp) {
        let set = self.cell(app, self.set).await;
        assert_eq!((status(&set), restarted(&set)), ("ok", None), "{set}");
    }

    /// That variable, in the same kernel.
    async fn x(&self, app: &TestApp) -> String {
        let shown = self.cell(app, self.show).await;
        assert_eq!((status(&shown), restarted(&shown)), ("ok", None), "{shown}");
        shown["output"].as_str().unwrap().trim().to_owned()
    }
}

fn status(result: &Value) -> &str {
    result["status"].as_str().unwrap_or_else(|| {
        result["code"]
            .as_str()
            .unwrap_or_else(|| panic!("{result}"))
    })
}

/// Why a result has a new kernel.
fn restarted(result: &Value) -> Option<&str> {
    assert_eq!(
        result.get("kernelRestarted").is_some(),
        result.get("kernelRestartReason").is_some(),
        "{result}"
    );
    result["kernelRestartReason"].as_str()
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[case::on_warm_docker(Engine::WarmDocker, PYTHON)]
#[case::on_kubernetes(Engine::Kubernetes, PYTHON)]
#[case::on_warm_kubernetes(Engine::WarmKubernetes, PYTHON)]
#[tokio::test]
async fn variables_and_files_live_on(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[]).await;
    let first = dialect.cell(app, dialect.set).await;
    assert_eq!((status(&first), restarted(&first)), ("ok", None), "{first}");
    for _ in 0..5 {
        assert_eq!(dialect.x(app).await, "41");
    }
    let made = dialect.cell(app, dialect.file).await;
    let files = &made["files"];
    assert_eq!(
        (&files[0]["name"], &files[0]["new"]),
        (&json!("out.txt"), &json!(true)),
        "{made}"
    );
    assert_eq!(app.download(&files[0]["url"]).await.text(), "made\n");
    let environment = json!({ "environment": { "GREETING": "hello" } });
    let shown = dialect.cell_with(app, dialect.show_env, environment).await;
    assert_eq!(shown["output"], "hello\n");
    // It stays, as in a shell.
    assert_eq!(
        dialect.cell(app, dialect.show_env).await["output"],
        "hello\n"
    );
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[tokio::test]
async fn a_failing_cell_keeps_the_kernel(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[]).await;
    dialect.set_x(app).await;
    let failed = dialect.cell(app, dialect.fail).await;
    assert_eq!(
        (status(&failed), &failed["exitCode"], &failed["success"]),
        ("error", &json!(1), &json!(false))
    );
    assert_eq!(
        failed["hint"],
        "The program ended with exit code 1: see stderr. The kernel and its variables live on."
    );
    assert_eq!(dialect.x(app).await, "41");
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[case::on_kubernetes(Engine::Kubernetes, PYTHON)]
#[tokio::test]
async fn a_time_limit_interrupts_first(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[]).await;
    dialect.set_x(app).await;
    let limit = json!({ "timeoutSeconds": 0.5 });
    let late = dialect.cell_with(app, dialect.sleep, limit).await;
    assert_eq!(
        (status(&late), &late["stdout"]),
        ("timeout", &json!("begun\n")),
        "{late}"
    );
    let hint = "The program was interrupted after its time limit of 0.5 s: make it faster, or give timeoutSeconds up \
                to 300. The kernel and its variables live on.";
    assert_eq!(late["hint"], hint);
    assert_eq!(dialect.x(app).await, "41");
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[tokio::test]
async fn what_does_not_heed_is_killed_and_told(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[]).await;
    dialect.set_x(app).await;
    let limit = json!({ "timeoutSeconds": 0.5 });
    let late = dialect.cell_with(app, dialect.deaf, limit).await;
    assert_eq!(status(&late), "timeout", "{late}");
    let hint = late["hint"].as_str().unwrap();
    assert!(hint.ends_with("The kernel has ended: its variables are lost, and the next stateful run begins with a new one."), "{hint}");
    let next = dialect.cell(app, dialect.show).await;
    assert_eq!(
        restarted(&next),
        Some(
            "The run before took too long and did not stop in time when it was interrupted: variables, functions and \
             imports are lost, files in /data are not."
        )
    );
    assert_eq!(next["output"], "\n");
    assert_eq!(restarted(&dialect.cell(app, dialect.show).await), None);
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[tokio::test]
async fn the_end_of_a_kernel_is_told(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[]).await;
    dialect.set_x(app).await;
    let ended = dialect.cell(app, dialect.leave).await;
    assert_eq!((status(&ended), &ended["exitCode"]), ("error", &json!(3)));
    let next = dialect.cell(app, dialect.show).await;
    assert!(restarted(&next).unwrap().contains("with exit code 3"));
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[tokio::test]
async fn a_cancelled_cell_keeps_the_kernel(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[SOON]).await;
    dialect.set_x(app).await;
    let running = dialect.begun(app).await;
    let outcome = app
        .call("cancel_run", json!({ "runId": running["runId"] }))
        .await;
    assert_eq!(status(&outcome), "cancelled", "{outcome}");
    assert_eq!(
        outcome["hint"],
        "The run was cancelled before its end. The kernel and its variables live on."
    );
    assert_eq!(dialect.x(app).await, "41");
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[tokio::test]
async fn a_flood_keeps_the_kernel(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[LITTLE]).await;
    dialect.set_x(app).await;
    let flooded = dialect.cell(app, dialect.flood).await;
    assert_eq!(status(&flooded), "output_limit", "{flooded}");
    assert_eq!(flooded["stdout"].as_str().unwrap().len(), 1024);
    assert_eq!(dialect.x(app).await, "41");
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[tokio::test]
async fn a_second_call_is_refused_or_waits(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[SOON]).await;
    dialect.set_x(app).await;
    let running = dialect.begun(app).await;
    let refused = dialect.cell(app, dialect.show).await;
    assert_eq!(status(&refused), "session_busy");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("wait: true"), "{message}");
    // Those who wait run one after another, and their wait does not count as running.
    let wait = json!({ "wait": true, "timeoutSeconds": 5 });
    let waiting =
        [dialect.nap, dialect.show].map(|code| dialect.cell_with(app, code, wait.clone()));
    let cancel = async {
        eventually("they wait", || app.app.parts.gate.count() == 3).await;
        app.call("cancel_run", json!({ "runId": running["runId"] }))
            .await
    };
    let (answers, _) = tokio::join!(futures::future::join_all(waiting), cancel);
    let mut outputs = Vec::new();
    for answer in answers {
        assert_eq!(status(&answer), "ok", "{answer}");
        outputs.push(answer["output"].as_str().unwrap().to_owned());
    }
    assert_eq!(outputs, ["napped\n", "41\n"]);
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[tokio::test]
async fn a_restart_is_told(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[]).await;
    let restart = json!({ "restart": true });
    // There was none before.
    let first = dialect.cell_with(app, dialect.set, restart.clone()).await;
    assert_eq!(restarted(&first), None);
    let next = dialect.cell_with(app, dialect.show, restart).await;
    assert_eq!(
        (restarted(&next), &next["output"]),
        (
            Some(
                "A new kernel was asked for: variables, functions and imports are lost, files in /data are not."
            ),
            &json!("\n")
        )
    );
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[tokio::test]
async fn an_idle_kernel_ends(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[SHORT]).await;
    dialect.set_x(app).await;
    let count = || app.app.parts.kernels.count_of(dialect.language);
    assert_eq!(count(), (1, 0));
    eventually("it has ended", || count() == (0, 0)).await;
    let next = dialect.cell(app, dialect.show).await;
    assert_eq!(
        restarted(&next),
        Some(
            "The kernel was not used for too long: variables, functions and imports are lost, files in /data are not."
        )
    );
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[tokio::test]
async fn the_least_recently_used_makes_room(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[ONE]).await;
    dialect.set_x(app).await;
    let other = json!({ "conversationId": "other" });
    let theirs = dialect.cell_with(app, dialect.show, other.clone()).await;
    assert_eq!(
        (restarted(&theirs), &theirs["output"]),
        (None, &json!("\n")),
        "{theirs}"
    );
    // One that is working is not taken away.
    let long = dialect.cell_with(app, dialect.nap, other);
    let meanwhile = async {
        eventually("the other works", || {
            app.app.parts.kernels.count_of(dialect.language) == (0, 1)
        })
        .await;
        dialect.cell(app, dialect.show).await
    };
    let (napped, refused) = tokio::join!(long, meanwhile);
    assert_eq!((status(&napped), status(&refused)), ("ok", "busy"));
    let next = dialect.cell(app, dialect.show).await;
    assert!(
        restarted(&next)
            .unwrap()
            .starts_with("Another conversation needed"),
        "{next}"
    );
    engine.finish(app).await;
}
