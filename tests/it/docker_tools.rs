//! Programs on the real engine that call the tools of LibreChat: each call waits for its result, and nothing is done
//! twice.

use std::fmt::Write as _;
use std::time::Duration;

use axum::http::Request;
use serde_json::{Value, json};

use crate::dialects::token_file;
use crate::support::{Answer, TOKEN, TestApp, eventually};

async fn app() -> TestApp {
    TestApp::on_docker_with(&[("DIALECTS", "librechat"), ("SANDBOX_REUSE", "conversation")]).await
}

async fn send(app: &TestApp, path: &str, id: &str, body: &Value) -> Answer {
    send_as(app, TOKEN, path, id, body).await
}

async fn send_as(app: &TestApp, token: &str, path: &str, id: &str, body: &Value) -> Answer {
    let request = Request::post(format!("/librechat/v1/exec/programmatic{path}"))
        .header("host", "localhost:8080")
        .header("x-librechat-code-request-id", id)
        .header("x-api-key", token);
    app.send(request.body(body.to_string().into()).unwrap())
        .await
}

async fn turn(app: &TestApp, body: &Value) -> Value {
    send(app, "", "", body).await.json()
}

fn begin(language: &str, code: &str) -> Value {
    let tools = ["add", "get-page", "read", "cat", "printf"];
    let tools = tools.map(|name| json!({ "name": name, "description": "a tool" }));
    json!({ "lang": language, "code": code, "tools": tools, "timeout": 15000, "user_id": "u1" })
}

/// What the tools of the client answer: a sum; a page, or that there is none.
fn results(answer: &Value) -> Value {
    let calls = answer["tool_calls"].as_array().unwrap().iter();
    let results = calls.map(|call| {
        let input = &call["input"];
        match call["name"].as_str().unwrap() {
            "read" => json!({ "call_id": call["id"], "result": "a tool", "is_error": false }),
            "add" => {
                let sum = ["a", "b"].map(|name| input[name].as_i64().unwrap_or(0));
                json!({ "call_id": call["id"], "result": sum[0] + sum[1], "is_error": false })
            }
            _ if input["path"] == "/" => {
                let page = json!({ "title": "it's \"é\"", "lines": ["a\nb", null] });
                json!({ "call_id": call["id"], "result": page, "is_error": false })
            }
            _ => json!({
                "call_id": call["id"], "result": null, "is_error": true, "error_message": "no such page"
            }),
        }
    });
    results.collect()
}

/// Answers all calls of a program. Returns what was called, and the last answer.
async fn played(app: &TestApp, language: &str, code: &str) -> (String, Value) {
    let mut answer = turn(app, &begin(language, code)).await;
    let (mut told, mut turns) = (String::new(), 0);
    while answer["status"] == "tool_call_required" {
        for call in answer["tool_calls"].as_array().unwrap() {
            let name = call["name"].as_str().unwrap();
            writeln!(told, "{name} {}", call["input"]).unwrap();
        }
        turns += 1;
        let next = json!({
            "continuation_token": answer["continuation_token"], "tool_results": results(&answer)
        });
        answer = turn(app, &next).await;
    }
    // What was called together was told together, unless the machine is slow.
    assert!(
        turns < told.lines().count() || turns < 5,
        "{turns} turns: {told}"
    );
    (told, answer)
}

/// What was called, how the program ended, and what it printed.
fn shown(told: &str, answer: &Value, more: &str) -> String {
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| answer[name].as_str().unwrap());
    let (status, code) = (&answer["status"], &answer["code"]);
    format!("{told}{status} {code}{more}\n{stdout}{stderr}\n")
}

const PYTHON: &str = r#"open("/mnt/data/began.txt", "a").write("once\n")
total = 0
for number in range(3):
    total = await add(a=total, b=number)
print(total)
next = open = min = dict = None
print(sorted(await asyncio.gather(*[add(a=number, b=0) for number in range(4)])))
page = await get_page(path="/")
print(page["title"], page["lines"])
print(await add({"a": 1, "b": 2}))
try:
    await get_page(path="/none")
except Exception as error:
    print(repr(error))
import io, os
print(io.open("/mnt/data/began.txt").read(), end="")
print([name for name in os.listdir("/mnt/data")])
"#;

const BASH: &str = r#": &
wait "$!"
echo once >> /mnt/data/began.txt
sum=$(add '{"a": 1, "b": 2}')
sum=$(add "{\"a\": $sum, \"b\": 4}")
echo "sum $sum"
for number in 1 2 3; do { add '{"a": 5}' > /tmp/$number; } & done
wait
command cat /tmp/1 /tmp/2 /tmp/3
get_page '{"path": "/"}'
get_page '{"path": "/none"}' || echo "failed with $?"
add 'no JSON' || echo "failed with $?"
add '[1]' || echo "failed with $?"
get_page > /tmp/out || echo "failed with $?"
read '{"command": true}'
set -eu
IFS=-
add '{"a": 7}'
command cat /mnt/data/began.txt
ls -A /mnt/data
get_page '{"path": "/none"}'
echo not reached
"#;

#[tokio::test(flavor = "multi_thread")]
async fn programs_on_docker_go_on_where_they_called_a_tool() {
    let app = app().await;
    let mut seen = String::new();
    for (language, code) in [("py", PYTHON), ("bash", BASH)] {
        let (told, answer) = played(&app, language, code).await;
        let files = answer["files"].as_array().unwrap().iter();
        let files: Vec<_> = files.map(|file| file["name"].as_str().unwrap()).collect();
        seen.push_str(&shown(&told, &answer, &format!(" {files:?}")));
    }
    insta::assert_snapshot!(seen, @r#"
    add {"a":0,"b":0}
    add {"a":0,"b":1}
    add {"a":1,"b":2}
    add {"a":0,"b":0}
    add {"a":1,"b":0}
    add {"a":2,"b":0}
    add {"a":3,"b":0}
    get-page {"path":"/"}
    add {"a":1,"b":2}
    get-page {"path":"/none"}
    "completed" 0 ["began.txt"]
    3
    [0, 1, 2, 3]
    it's "é" ['a\nb', None]
    3
    RuntimeError('get-page: no such page')
    once
    ['began.txt']

    add {"a":1,"b":2}
    add {"a":3,"b":4}
    add {"a":5}
    add {"a":5}
    add {"a":5}
    get-page {"path":"/"}
    get-page {"path":"/none"}
    get-page {}
    read {"command":true}
    add {"a":7}
    get-page {"path":"/none"}
    "completed" 1 ["began.txt"]
    sum 7
    5
    5
    5
    {"title":"it's \"é\"","lines":["a\nb",null]}
    failed with 1
    failed with 1
    failed with 1
    failed with 1
    "a tool"
    7
    once
    began.txt
    get-page: no such page
    add: the argument is no JSON: expected ident at line 1 column 2
    add: the argument must be an object of JSON, such as '{"key": 1}'
    get-page: no such page
    get-page: no such page
    "#);
    app.assert_nothing_is_left().await;
}

const CHAINED: &str = "\
if await add(a=1) == 2:
    return
try:
    await get_page(path='/none')
except RuntimeError as error:
    raise ValueError('no page') from error";

/// An error is that of the program alone, with its lines as they were sent.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_programs_on_docker_that_call_tools_are_their_own() {
    let app = app().await;
    let mut seen = String::new();
    for code in [
        "def half(it):\n    return it / 0\n\nprint(await add(a=1, b=2))\nhalf(1)",
        "await add(1, 2)",
        "await get_page(path='/none')",
        "1 +",
        CHAINED,
        "import asyncio\nasync def main():\n    print(await add(a=1))\nasyncio.run(main())\nraise SystemExit(3)",
        "if await add(a=1) == 1:\n    print('early')\n    return\nprint('late')",
        "from __future__ import annotations\nprint(__name__, 'add' in globals())",
    ] {
        let (told, answer) = played(&app, "py", code).await;
        seen.push_str(&shown(&told, &answer, ""));
    }
    insta::assert_snapshot!(seen, @r#"
    add {"a":1,"b":2}
    "completed" 1
    3
    Traceback (most recent call last):
      File "<program>", line 5, in <module>
        half(1)
        ~~~~^^^
      File "<program>", line 2, in half
        return it / 0
               ~~~^~~
    ZeroDivisionError: division by zero

    "completed" 1
    Traceback (most recent call last):
      File "<program>", line 1, in <module>
        await add(1, 2)
    TypeError: add takes its arguments by name, as in key=value

    get-page {"path":"/none"}
    "completed" 1
    Traceback (most recent call last):
      File "<program>", line 1, in <module>
        await get_page(path='/none')
    RuntimeError: get-page: no such page

    "completed" 1
      File "<program>", line 1
        1 +
           ^
    SyntaxError: invalid syntax

    add {"a":1}
    get-page {"path":"/none"}
    "completed" 1
    Traceback (most recent call last):
      File "<program>", line 4, in <module>
        await get_page(path='/none')
    RuntimeError: get-page: no such page

    The above exception was the direct cause of the following exception:

    Traceback (most recent call last):
      File "<program>", line 6, in <module>
        raise ValueError('no page') from error
    ValueError: no page

    add {"a":1}
    "completed" 3
    1

    add {"a":1}
    "completed" 0
    early

    "completed" 0
    __main__ True
    "#);
    app.assert_nothing_is_left().await;
}

/// A program is held no longer than it may be, and nobody else can answer it.
#[tokio::test(flavor = "multi_thread")]
async fn programs_on_docker_that_wait_for_tools_have_an_end() {
    let (_dir, file, other) = token_file("research", &[]);
    let settings = [("DIALECTS", "librechat"), ("ACCESS_FILE", &*file)];
    let app = TestApp::on_docker_with(&settings).await;
    let code = "print('before', flush=True)\nawait add(a=1, b=2)\nimport time\ntime.sleep(30)";
    let mut body = begin("py", code);
    body["timeout"] = 1500.into();
    let answer = turn(&app, &body).await;
    let token = &answer["continuation_token"];
    let wrong = [
        json!({ "continuation_token": "x", "tool_results": results(&answer) }),
        json!({ "continuation_token": token, "tool_results": [] }),
        json!({ "continuation_token": token, "tool_results": [{ "call_id": "call_009" }] }),
    ];
    let mut seen = String::new();
    for body in wrong {
        let answer = send(&app, "", "", &body).await;
        writeln!(seen, "{} {}", answer.status.as_u16(), answer.text()).unwrap();
    }
    let next = json!({ "continuation_token": token, "tool_results": results(&answer) });
    let theirs = send_as(&app, &other, "", "", &next).await;
    writeln!(seen, "{} {}", theirs.status.as_u16(), theirs.text()).unwrap();
    let mut ended = turn(&app, &next).await;
    ended["session_id"].take();
    writeln!(seen, "{ended}").unwrap();
    let again = send(&app, "", "", &next).await;
    writeln!(seen, "{} {}", again.status.as_u16(), again.text()).unwrap();
    insta::assert_snapshot!(seen, @r#"
    404 {"error":"no program waits for these results: it has ended, or its time was over","code":"not_found"}
    400 {"error":"tool_results must have one result for each call that waits: call_001","code":"invalid_arguments"}
    400 {"error":"tool_results must have one result for each call that waits: call_001","code":"invalid_arguments"}
    404 {"error":"no program waits for these results: it has ended, or its time was over","code":"not_found"}
    {"status":"error","error":"Time limit exceeded","session_id":null,"stdout":"before\n","stderr":""}
    404 {"error":"no program waits for these results: it has ended, or its time was over","code":"not_found"}
    "#);
    app.assert_nothing_is_left().await;
}

/// Whatever a program calls for, it is bounded: in the bytes of one call, and in calls.
#[tokio::test(flavor = "multi_thread")]
async fn calls_of_programs_on_docker_have_limits() {
    let app = app().await;
    let long = "add \"$(command head -c 1100000 /dev/zero | command tr '\\0' ' ')\"";
    let (told, answer) = played(&app, "bash", long).await;
    assert_eq!(told, "");
    insta::assert_snapshot!(answer["stderr"].as_str().unwrap_or(&answer.to_string()), @"add: the arguments have more than 1048576 bytes, which is the limit");
    let many = r#"
for number in {1..2001}; do
    command printf 'none\n' > /data/.tool-$number
    command printf '\x1e%s{"call":"%s"}\x1e' "$__sandbox_mark" ".tool-$number"
done
sleep 30
"#;
    let (told, answer) = played(&app, "bash", many).await;
    assert_eq!(
        (&*told, &answer["error"]),
        ("", &json!("Execution failed or timed out"))
    );
    insta::assert_snapshot!(answer["stderr"].as_str().unwrap_or(&answer.to_string()), @r"

    [sandbox] the program has made more than 2000 calls, which is the limit
    ");
    app.assert_nothing_is_left().await;
}

/// A result that the conversation has no room for is an error of the tool, and no end of the program.
#[tokio::test(flavor = "multi_thread")]
async fn results_that_are_too_large_for_docker_are_errors_of_their_tools() {
    let settings = [("DIALECTS", "librechat"), ("MAX_UPLOAD_BYTES", "64k")];
    let app = TestApp::on_docker_with(&settings).await;
    let code =
        "try:\n    await add()\nexcept Exception as error:\n    print(error)\nprint(await add())";
    let mut answer = turn(&app, &begin("py", code)).await;
    for result in [json!("x".repeat(100_000)), json!(7)] {
        let id = &answer["tool_calls"][0]["id"];
        let results = json!([{ "call_id": id, "result": result }]);
        let next =
            json!({ "continuation_token": answer["continuation_token"], "tool_results": results });
        answer = turn(&app, &next).await;
    }
    insta::assert_snapshot!(answer["stdout"].as_str().unwrap_or(&answer.to_string()), @r"
    add: content has 100005 bytes, the limit is 65536: upload smaller pieces
    7
    ");
    app.assert_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_program_on_docker_can_be_cancelled() {
    let app = app().await;
    let body = begin("py", "import time\ntime.sleep(60)\nawait add(a=1)");
    let cancel = async {
        eventually("the program runs", || {
            !app.app.services().ledger.under_way().is_empty()
        })
        .await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let other = send(&app, "/cancel", "", &json!({ "request_id": "other" })).await;
        let ours = send(&app, "/cancel", "", &json!({ "request_id": "ours" })).await;
        (other.status.as_u16(), ours.status.as_u16())
    };
    let (answer, statuses) = tokio::join!(send(&app, "", "ours", &body), cancel);
    assert_eq!(statuses, (404, 200));
    insta::assert_snapshot!(answer.text(), @r#"
    {"status":"error","error":"Execution failed or timed out","stdout":"","stderr":""}
    "#);
    eventually("the program has ended", || {
        app.app.services().ledger.under_way().is_empty()
    })
    .await;
    app.assert_nothing_is_left().await;
}

/// What a program prints, or how often it says the same, does not keep its client from hearing of a call; and a call
/// that nobody can hear of has an end.
#[tokio::test(flavor = "multi_thread")]
async fn calls_of_programs_on_docker_are_told_whatever_they_print() {
    let app = app().await;
    let shared = r#"
import os, threading, time
def chatter():
    while True:
        print(".", flush=True)
        time.sleep(0.005)
threading.Thread(target=chatter, daemon=True).start()
print(await add(a=1, b=2))
os._exit(0)
"#;
    let (told, answer) = played(&app, "py", shared).await;
    assert_eq!(
        (&*told, &answer["status"]),
        ("add {\"a\":1,\"b\":2}\n", &json!("completed"))
    );
    // Records that a program writes by itself: of one file again and again, of none, and of what is no file of a call.
    let forged = r#"
announce() { command printf '\x1e%s{"call":"%s"}\x1e' "$__sandbox_mark" "$1"; }
command printf 'add\n{"a": 1, "more": [0%s]}' "$(command printf ',{"":0}%.0s' {1..100000})" > /data/.tool-same
for name in x .tool-$(command printf 'x%.0s' {1..200}) .tool-a_b .tool-a/x; do
    mkdir -p /data/.tool-a
    command printf 'add\n{"a": 2}' > "/data/$name"
    announce "$name"
done
for name in '' ../x .packages/x .tool-../x .tool-none; do announce "$name"; done
ln -s /etc/passwd /data/.tool-link
announce .tool-link
for number in {1..300}; do announce .tool-same; done
until [[ -e /data/.tool-same.answer ]]; do sleep 0.1; done
echo survived
"#;
    let (told, answer) = played(&app, "bash", forged).await;
    // What is said again after the answer is a call again.
    assert!(
        told.lines().all(|call| call.starts_with("add {\"a\":1")),
        "{told}"
    );
    assert!((1..=2).contains(&told.lines().count()), "{told}");
    assert_eq!(answer["stdout"], "survived\n", "{answer}");
    let late = json!({ "code": "print('x' * 3_000_000)\nawait add(a=1)", "tools": [{ "name": "add" }], "timeout": 1500 });
    let late = turn(&app, &late).await;
    assert_eq!(late["error"], "stdout length exceeded");
    app.assert_nothing_is_left().await;
}
