//! Standard input in the runner images: cold, warm, and in the cells of kernels.

use serde_json::{Value, json};

use crate::support::{TestApp, eventually};

const TEXT: &str = "eins\nzwei é\ndrei\n";
/// Programs that read by the means of their language, and what they print of [`TEXT`].
const READERS: [(&str, &str, &str); 5] = [
    (
        "python",
        "import sys\nprint([input('? '), input(), sys.stdin.read(), sys.stdin.read()])",
        "? ['eins', 'zwei é', 'drei\\n', '']\n",
    ),
    // By the driver that has the large libraries.
    (
        "python",
        "import pandas, sys\nprint(list(pandas.read_csv(sys.stdin).eins))",
        "['zwei é', 'drei']\n",
    ),
    (
        "python",
        "import os, subprocess\nprint(sorted(os.listdir('/proc/self/fd'))[:-1], flush=True)\nsubprocess.run(['cat'])",
        "['0', '1', '2']\neins\nzwei é\ndrei\n",
    ),
    (
        "shell",
        "read a; read b; echo \"$a|$b|$(cat)|$(cat)|\" $(ls /proc/self/fd | wc -w)",
        "eins|zwei é|drei|| 4\n",
    ),
    (
        "typescript",
        "import { readdirSync, readFileSync } from 'node:fs';\nlet count = 0;\n\
         for await (const piece of process.stdin) count += piece.length;\n\
         console.log(count, readFileSync('/dev/stdin', 'utf8').split('\\n'));",
        "18 [ \"eins\", \"zwei é\", \"drei\", \"\" ]\n",
    ),
];

async fn run(app: &TestApp, language: &str, code: &str, more: Value) -> Value {
    let mut arguments = json!({ "conversationId": "demo", "language": language, "code": code });
    let Value::Object(more) = more else {
        panic!("no object: {more}")
    };
    arguments.as_object_mut().unwrap().extend(more);
    app.call("run_code", arguments).await
}

/// Cold at first, and then in what the conversation has parked.
#[tokio::test]
async fn programs_read_what_their_call_brings() {
    let app = TestApp::on_docker_with(&[("SANDBOX_REUSE", "conversation")]).await;
    for (language, code, printed) in READERS {
        for _ in 0..2 {
            let outcome = run(&app, language, code, json!({ "stdin": TEXT })).await;
            assert_eq!(outcome["output"], printed, "{outcome}");
            eventually("a sandbox waits", || app.app.parts.pool.count().1 > 0).await;
        }
    }
    assert!(app.starts("own") >= 5, "{}", app.starts("own"));
    app.assert_nothing_is_left().await;
}

/// More than a pipe holds, which nobody reads; and then nothing.
#[tokio::test]
async fn unread_input_is_gone_for_the_next_program() {
    let app = TestApp::on_docker_with(&[("SANDBOX_REUSE", "conversation")]).await;
    for (language, unread, code) in [
        (
            "python",
            "print('unread')",
            "import sys; print(repr(sys.stdin.read()))",
        ),
        ("shell", "echo unread", "echo \"'$(cat)'\""),
        (
            "typescript",
            "console.log('unread')",
            "console.log(`'${await Bun.stdin.text()}'`)",
        ),
    ] {
        for (code, stdin, printed) in [
            (unread, json!({ "stdin": "x".repeat(1 << 20) }), "unread\n"),
            (code, json!({}), "''\n"),
            (unread, json!({ "stdin": "x".repeat(1 << 20) }), "unread\n"),
            (code, json!({}), "''\n"),
        ] {
            let outcome = run(&app, language, code, stdin).await;
            assert_eq!(outcome["output"], printed, "{language} {outcome}");
            eventually("a sandbox waits", || app.app.parts.pool.count().1 > 0).await;
        }
    }
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_cell_reads_what_its_own_call_brings() {
    let app = TestApp::on_docker_with(&[("MAX_KERNELS", "2")]).await;
    let cell = async |code: &str, stdin: Value| {
        let mut more = json!({ "stateful": true });
        if !stdin.is_null() {
            more["stdin"] = stdin;
        }
        let outcome = run(&app, "python", code, more).await;
        format!(
            "{}{} {}",
            outcome["stdout"].as_str().unwrap(),
            outcome["stderr"]
                .as_str()
                .unwrap()
                .lines()
                .last()
                .unwrap_or_default(),
            outcome["exitCode"]
        )
    };
    let mut told = Vec::new();
    for (code, stdin) in [
        (
            "import sys; first = sys.stdin; a = input('? '); print(a)",
            json!("1\n2\n3\n"),
        ),
        ("input()", Value::Null),
        ("b = input(); print(b, first.closed); input()", json!("4")),
        ("!cat", json!("five\n")),
        ("%%bash\ncat", Value::Null),
        (
            "from _sandbox_driver import first_cell; print('stdin' in first_cell)",
            Value::Null,
        ),
    ] {
        told.push(cell(code, stdin).await);
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    ? 1
     0
    EOFError: EOF when reading a line 1
    4 True
    EOFError: EOF when reading a line 1
    five
     0
     0
    False
     0
    ");
    let more = json!({ "stateful": true, "stdin": "1" });
    let refused = run(&app, "typescript", "prompt()", more).await;
    assert_eq!(refused["code"], "invalid_arguments", "{refused}");
    app.assert_nothing_is_left().await;
}
