//! Commands in a sandbox.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::*;

fn envelope(message: &Value) -> Vec<u8> {
    let message = message.to_string();
    let length = u32::try_from(message.len()).unwrap();
    [&[0], &length.to_be_bytes()[..], message.as_bytes()].concat()
}

/// The messages of a stream, with what was printed in plain text and in one piece.
pub(crate) fn messages(answer: &Answer) -> String {
    assert_eq!(
        (answer.status.as_u16(), answer.header("content-type")),
        (200, "application/connect+json"),
        "{}",
        answer.text()
    );
    let (mut rest, mut seen) = (&answer.body[..], Vec::<String>::new());
    let mut printed: Option<(&str, String)> = None;
    while let Some((head, after)) = rest.split_at_checked(5) {
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let (message, next) = after.split_at(length);
        let message: Value = serde_json::from_slice(message).unwrap();
        rest = next;
        for stream in ["stdout", "stderr"] {
            let Some(data) = message["event"]["data"][stream].as_str() else {
                continue;
            };
            let data = BASE64_STANDARD.decode(data).unwrap();
            let data = String::from_utf8(data).unwrap();
            match &mut printed {
                Some((last, text)) if *last == stream => text.push_str(&data),
                _ => {
                    seen.extend(printed.map(|(stream, text)| format!("{stream} {text:?}")));
                    printed = Some((stream, data));
                }
            }
        }
        if message["event"].get("data").is_none() {
            seen.extend(
                printed
                    .take()
                    .map(|(stream, text)| format!("{stream} {text:?}")),
            );
            seen.push(format!("{} {message}", head[0]));
        }
    }
    assert!(rest.is_empty());
    seen.join("\n")
}

impl Sandbox<'_> {
    pub(crate) async fn stream(
        &self,
        method: &str,
        message: &Value,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = Request::post(format!("/e2b/sandbox/process.Process/{method}"))
            .header("host", "localhost:8080")
            .header("e2b-sandbox-id", &self.id)
            .header("x-access-token", &self.token)
            .header("content-type", "application/connect+json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(envelope(message).into()).unwrap();
        self.app.send(request).await
    }

    async fn run(&self, script: &str) -> String {
        messages(&self.stream("Start", &bash(script), &[]).await)
    }
}

/// What clients make of a command.
pub(crate) fn bash(script: &str) -> Value {
    json!({ "process": { "cmd": "/bin/bash", "args": ["-l", "-c", script], "envs": { "WORD": "said" } }, "stdin": false })
}

#[tokio::test]
async fn what_a_command_prints_and_how_it_ends_is_told_in_order() {
    let app = app(&[]).await;
    let sandbox = Sandbox::new(&app, TOKEN).await;
    let first = sandbox
        .run("echo out $WORD\necho err >&2\necho a > a.txt")
        .await;
    let second = sandbox.run("cat a.txt\nexit 3").await;
    insta::assert_snapshot!([first, second].join("\n\n"), @r#"
    0 {"event":{"start":{"pid":1}}}
    stdout "out said\n"
    stderr "err\n"
    0 {"event":{"end":{"exitCode":0,"exited":true,"status":"exit status 0"}}}
    2 {}

    0 {"event":{"start":{"pid":2}}}
    stdout "a\n"
    0 {"event":{"end":{"exitCode":3,"exited":true,"status":"exit status 3","error":"exit status 3"}}}
    2 {}
    "#);
}

#[tokio::test]
async fn what_cannot_be_run_is_told_at_the_end_of_the_stream() {
    let app = app(&[("RUN_TIMEOUT_MAX", "1h")]).await;
    let sandbox = Sandbox::new(&app, TOKEN).await;
    let mut seen = Vec::new();
    for message in [
        json!({ "process": { "cmd": "/bin/bash", "args": [] }, "pty": { "size": {} } }),
        json!({ "process": { "cmd": "cat" }, "stdin": true }),
        json!({ "process": { "cmd": "cat", "envs": { "a b": "" } } }),
        json!({ "process": 1 }),
    ] {
        seen.push(messages(&sandbox.stream("Start", &message, &[]).await));
    }
    let limit = [("connect-timeout-ms", "100")];
    seen.push(messages(
        &sandbox.stream("Start", &bash("sleep 60"), &limit).await,
    ));
    let unknown = json!({ "process": { "pid": 99 } });
    seen.push(messages(&sandbox.stream("Connect", &unknown, &[]).await));
    for method in ["SendSignal", "SendInput", "Update"] {
        let message = json!({ "process": { "pid": 99 }, "signal": "SIGNAL_SIGKILL" });
        let answer = sandbox
            .call(&format!("process.Process/{method}"), &message)
            .await;
        seen.push(told(&answer));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    2 {"error":{"code":"unimplemented","message":"commands have no terminal and no input here: write the input to a file, and read it from there"}}
    2 {"error":{"code":"unimplemented","message":"commands have no terminal and no input here: write the input to a file, and read it from there"}}
    2 {"error":{"code":"invalid_argument","message":"environment has the name \"a b\": a name is a letter or _, then letters, digits and _, at most 128"}}
    2 {"error":{"code":"invalid_argument","message":"the body does not fit: invalid type: integer `1`, expected struct Command at line 1 column 12"}}
    0 {"event":{"start":{"pid":2}}}
    2 {"error":{"code":"deadline_exceeded","message":"The program was stopped after its time limit of 0.1 s: make it faster, or give timeout up to 3600."}}
    2 {"error":{"code":"not_found","message":"there is no such process: it has ended"}}
    404 {"code":"not_found","message":"there is no such process: it has ended"}
    501 {"code":"unimplemented","message":"this call is not implemented here: docs/moving.md says which are"}
    501 {"code":"unimplemented","message":"this call is not implemented here: docs/moving.md says which are"}
    "#);
}

#[tokio::test]
async fn a_command_is_listed_asked_for_again_and_killed() {
    let app = app(&[("RUN_TIMEOUT", "60s")]).await;
    let sandbox = Sandbox::new(&app, TOKEN).await;
    let (message, connect) = (
        bash("echo begun\nsleep 600"),
        json!({ "process": { "pid": 1 } }),
    );
    let started = sandbox.stream("Start", &message, &[]);
    let others = async {
        let has_printed = || {
            let runs = app.app.services().ledger.under_way();
            runs.iter().any(|run| run.progress.capture.kept() > 0)
        };
        eventually("the command has printed", has_printed).await;
        let again = sandbox.stream("Connect", &connect, &[]);
        let end = async {
            let listed = sandbox.call("process.Process/List", &json!({})).await;
            let signal = json!({ "process": { "pid": 1 }, "signal": "SIGNAL_SIGKILL" });
            let killed = sandbox.call("process.Process/SendSignal", &signal).await;
            [told(&listed), told(&killed)]
        };
        tokio::join!(again, end)
    };
    let (started, (again, ended)) = tokio::join!(started, others);
    let [listed, killed] = ended;
    let seen = [messages(&started), messages(&again), listed, killed];
    insta::assert_snapshot!(seen.join("\n"), @r#"
    0 {"event":{"start":{"pid":1}}}
    stdout "begun\n"
    0 {"event":{"end":{"exitCode":-1,"exited":false,"status":"signal: killed","error":"signal: killed"}}}
    2 {}
    0 {"event":{"start":{"pid":1}}}
    stdout "begun\n"
    0 {"event":{"end":{"exitCode":-1,"exited":false,"status":"signal: killed","error":"signal: killed"}}}
    2 {}
    200 {"processes":[{"config":{"cmd":"/bin/bash","args":["-l","-c","echo begun\nsleep 600"],"envs":{"WORD":"said"}},"pid":1,"tag":null}]}
    200 {}
    "#);
    let listed = sandbox.call("process.Process/List", &json!({})).await;
    assert_eq!(listed.json(), json!({ "processes": [] }));
}
