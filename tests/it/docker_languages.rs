//! The runner images on the real engine: languages, libraries, pictures, and images that others make.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::image::{TestImage, docker};
use crate::support::wait::within;
use crate::support::{TestApp, eventually};

/// How long the server may take to notice that an image has come or gone: a second, but more on a busy machine.
const SEEN: Duration = Duration::from_secs(10);

#[tokio::test]
async fn python_says_hello_and_has_its_libraries() {
    let app = TestApp::on_docker().await;
    let code = "import numpy, pandas, matplotlib, scipy, seaborn, openpyxl, pyarrow, reportlab, requests, psycopg2, PIL\nprint('hello', 6 * 7)";
    let result = app.run("python", code).await;
    assert_eq!(
        (&result["stdout"], &result["stderr"]),
        (&json!("hello 42\n"), &json!("")),
        "{result}"
    );
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn an_uploaded_table_becomes_a_chart() {
    let app = TestApp::on_docker().await;
    app.upload("data.csv", b"city,sales\nBonn,3\nKiel,5\n")
        .await;
    let code = "import pandas as pd, matplotlib.pyplot as plt\ndf = pd.read_csv('data.csv')\nprint(df.sales.sum())\n\
                df.plot.bar(x='city')\nplt.savefig('out.png')\nplt.close()\nplt.figure()\nplt.plot([1, 2])\nplt.show()\nprint('after show')";
    let result = app.run("python", code).await;
    assert_eq!(
        (&result["stdout"], &result["stderr"]),
        (&json!("8\nafter show\n"), &json!("")),
        "{result}"
    );
    let new: Vec<_> = new_files(&result);
    assert_eq!(new, ["figure-1.png", "out.png"]);
    let picture = app.download(&result["files"][0]["url"]).await;
    assert_eq!(
        (picture.status.as_u16(), picture.header("content-type")),
        (200, "image/png")
    );
    assert!(picture.body.starts_with(b"\x89PNG"));
    app.assert_nothing_is_left().await;
}

/// Backends with windows, as programs for a desk ask for them.
#[tokio::test]
async fn a_figure_for_a_window_is_saved_like_any_other() {
    let app = TestApp::on_docker_with(&[("SANDBOX_REUSE", "conversation")]).await;
    for (count, backend) in ["TkAgg", "Qt5Agg", "nbAgg", "MacOSX"]
        .into_iter()
        .enumerate()
    {
        let code = format!(
            "import matplotlib\nmatplotlib.use('{backend}')\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
        );
        let outcome = app.run("python", &code).await;
        assert_eq!(
            (&outcome["status"], &outcome["stderr"]),
            (&json!("ok"), &json!("")),
            "{outcome}"
        );
        let name = format!("figure-{}.png", count + 1);
        assert_eq!(outcome["files"][0]["name"], name, "{outcome}");
    }
    app.assert_nothing_is_left().await;
}

fn new_files(result: &Value) -> Vec<&str> {
    let files = result["files"].as_array().unwrap().iter();
    files
        .filter(|file| file["new"] == true)
        .map(|file| file["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_run_that_timed_out_before_its_libraries_loaded_never_starts() {
    let app = TestApp::on_docker_with(&[("SANDBOX_REUSE", "conversation")]).await;
    app.run("python", "print('cold')").await;
    eventually("a small interpreter is parked", || {
        app.app.parts.pool.count().1 == 1
    })
    .await;
    // Also more than a pipe holds.
    for comment in [0, 300_000] {
        let code = format!("import pandas\nopen('late', 'w') #{}", "x".repeat(comment));
        let arguments = json!({
            "conversationId": "demo", "language": "python", "code": code, "timeoutSeconds": 0.1,
        });
        let outcome = app.call("run_code", arguments).await;
        assert_eq!(outcome["status"], "timeout", "{outcome}");
    }
    for _ in 0..2 {
        let code = "import pandas, os\nprint(os.listdir('/data'))";
        let outcome = app.run("python", code).await;
        assert_eq!(outcome["stdout"], "[]\n", "{outcome}");
    }
    app.assert_nothing_is_left().await;
}

/// pandas is loaded by then.
#[tokio::test]
async fn environment_for_a_library_takes_effect() {
    let app = TestApp::on_docker_with(&[
        ("POOL_SIZE", "python=1"),
        ("SANDBOX_REUSE", "conversation"),
        ("MAX_WARM_SANDBOXES", "1"),
    ])
    .await;
    app.parked("python", 1).await;
    for (environment, dtype) in [
        (json!({}), "str\n"),
        (json!({ "PANDAS_FUTURE_INFER_STRING": "0" }), "object\n"),
    ] {
        let code = "import pandas as pd\nprint(pd.Series(['a']).dtype)";
        let arguments = json!({
            "conversationId": "demo", "language": "python", "code": code, "environment": environment,
        });
        let outcome = app.call("run_code", arguments).await;
        assert_eq!(outcome["stdout"], dtype, "{outcome}");
    }
    // It looks for some packages when it is loaded, but they may be installed later.
    let install = "import os\nos.makedirs('.packages/python/numexpr')\n\
                   open('.packages/python/numexpr/__init__.py', 'w').write(\"__version__ = '9.0.0'\")";
    let look = "import pandas as pd\nfrom pandas.core.computation.check import NUMEXPR_INSTALLED\nprint(NUMEXPR_INSTALLED)";
    for (code, printed) in [(look, "False\n"), (install, ""), (look, "True\n")] {
        assert_eq!(app.run("python", code).await["stdout"], printed);
    }
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn typescript_and_javascript_run_on_bun() {
    let app = TestApp::on_docker().await;
    app.upload(
        "helper.ts",
        b"export const twice = (n: number): number => n * 2;",
    )
    .await;
    let code = "import { twice } from './helper';\nimport Papa from 'papaparse';\nimport postgres from 'postgres';\n\
                import pg from 'pg';\nimport csv from 'csv-parser';\nconst rows: string[][] = Papa.parse('a,b').data as string[][];\n\
                console.log('hello', twice(21), rows[0].length, await Promise.resolve('awaited'));";
    let result = app.run("typescript", code).await;
    assert_eq!(
        (&result["stdout"], &result["stderr"]),
        (&json!("hello 42 2 awaited\n"), &json!("")),
        "{result}"
    );
    assert_eq!(app.run("js", "console.log(1 + 1)").await["stdout"], "2\n");
    app.upload("main.ts", b"console.log('uploaded');\nexport const x = 1;")
        .await;
    let code = "import { x } from './main.ts';\nconsole.log(x, (await import('./main')).x);";
    assert_eq!(app.run("ts", code).await["stdout"], "uploaded\n1 1\n");
    // A package that the program makes itself is found as usual.
    let code = "await Bun.write('node_modules/own/index.js', 'module.exports = 7');\nconsole.log(require('own'));";
    assert_eq!(app.run("js", code).await["stdout"], "7\n");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn markup_is_taken_where_the_code_has_it() {
    let app = TestApp::on_docker().await;
    let mut told = Vec::new();
    for (language, stateful, code) in [
        (
            "tsx",
            false,
            "import { renderToString } from 'react-dom/server';\nconst Hello = ({ name }: { name: string }) => <p>Hello {name}</p>;\n\
             console.log(renderToString(<Hello name=\"Ä\" />));",
        ),
        (
            "jsx",
            false,
            "const React = require('react');\nconsole.log(require('react-dom/server').renderToStaticMarkup(<><i/><b>x</b></>));",
        ),
        // What both languages have, each in its own way.
        (
            "typescript",
            false,
            "const same = <T>(x: T) => x;\nconsole.log(same(<string>'</b>'));",
        ),
        (
            "typescript",
            false,
            "const App = () => <b/>;\nthrow new Error(typeof App);",
        ),
        ("typescript", false, "const broken = <p>"),
        (
            "typescript",
            true,
            "import { renderToString } from 'react-dom/server';\nconst Bold = () => <b>cell</b>;\nrenderToString(<Bold />)",
        ),
        ("typescript", true, "renderToString(<p><Bold /></p>)"),
    ] {
        let arguments = json!({
            "conversationId": "demo", "language": language, "stateful": stateful, "code": code,
        });
        let outcome = app.call("run_code", arguments).await;
        let output = outcome["output"].as_str().unwrap();
        told.push(output.lines().take(4).collect::<Vec<_>>().join("\n"));
    }
    insta::assert_snapshot!(told.join("\n---\n"), @r#"
    <p>Hello <!-- -->Ä</p>
    ---
    <i></i><b>x</b>
    ---
    </b>
    ---
    1 | const App = () => <b/>;
    2 | throw new Error(typeof App);
                  ^
    error: function
    ---
    1 | const broken = <p>
                         ^
    error: Unexpected end of file
        at /tmp/app/_main.ts:1:18
    ---
    "<b>cell</b>"
    ---
    "<p><b>cell</b></p>"
    "#);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn uploaded_modules_import_and_shadow_nothing() {
    let app = TestApp::on_docker().await;
    app.upload("mine.py", b"VALUE = 42").await;
    app.upload("json.py", b"print('SHADOWED')").await;
    let result = app
        .run(
            "python",
            "import json, mine, sys\nprint(mine.VALUE, json.dumps([1]), sys.path[-1])",
        )
        .await;
    assert_eq!(result["stdout"], "42 [1] /data\n", "{result}");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn home_is_writable_and_stdin_is_empty() {
    let app = TestApp::on_docker().await;
    let code = "import os, pathlib\npathlib.Path.home().joinpath('x').write_text('y')\nprint(os.getuid(), os.getcwd())\n\
                try:\n    input()\nexcept EOFError:\n    print('end of file')";
    assert_eq!(
        app.run("python", code).await["stdout"],
        "1000 /data\nend of file\n"
    );
    let shell = app.run("shell", "cat; touch ~/x && id -u && pwd").await;
    assert_eq!(shell["stdout"], "1000\n/data\n", "{shell}");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_killed_child_is_in_the_hint() {
    let app = TestApp::on_docker().await;
    let survived = app.run("python", "import os, sys\nif os.fork() == 0:\n    x = []\n    while True: x.append(bytearray(b'x' * (8 << 20)))\nos.wait()\nprint('parent')").await;
    assert_eq!(
        (&survived["status"], &survived["stdout"]),
        (&json!("ok"), &json!("parent\n")),
        "{survived}"
    );
    assert!(
        survived["hint"]
            .as_str()
            .unwrap()
            .contains("was killed by the memory limit")
    );
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn installs_for_other_languages_name_those_that_can() {
    let app = TestApp::on_docker().await;
    for (language, code) in [
        (
            "python",
            "import os\nos.system('pip install --retries=0 tiny')",
        ),
        ("typescript", "await Bun.$`bun add tiny`.nothrow()"),
    ] {
        let refused = app.run(language, code).await;
        let hint = "Programs cannot install packages: add tiny with install_packages, then run the program again.";
        assert_eq!(
            (&refused["status"], &refused["hint"]),
            (&json!("ok"), &json!(hint)),
            "{refused}"
        );
    }
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn images_that_others_make_work_and_are_seen_at_once() {
    let app = TestApp::on_docker().await;
    let dockerfile = "FROM debian:trixie-slim\nLABEL sandbox.runner=true sandbox.language=test-perl sandbox.aliases=camel\n\
                      WORKDIR /data\nENTRYPOINT [\"perl\", \"-\"]\n";
    let is_there = |expected: bool| {
        let runners = &app.app.parts.gate.catalog;
        within(SEEN, "the image is seen to come or go", async move || {
            (runners.view().runners.contains_key("test-perl") == expected).then_some(())
        })
    };
    let image = TestImage::build("mcp-sandbox-test-perl", dockerfile);
    is_there(true).await;
    let result = app
        .run(
            "camel",
            "print 'perl ', 6 * 7, qq{\\n}; open(my $f, '>', 'made'); print $f $<; exit 4",
        )
        .await;
    assert_eq!(
        (&result["stdout"], &result["exitCode"]),
        (&json!("perl 42\n"), &json!(4)),
        "{result}"
    );
    assert_eq!(new_files(&result), ["made"]);
    drop(image);
    is_there(false).await;
    app.assert_nothing_is_left().await;
}

/// As on Alpine: the shell is `BusyBox`, and there is no glibc, so nothing of ours may depend on it.
#[tokio::test]
async fn an_image_without_glibc_is_a_runner_cold_and_warm() {
    let dockerfile = "FROM scratch\nLABEL sandbox.runner=true sandbox.language=test-busybox\n\
                      COPY busybox /bin/busybox\nRUN [\"/bin/busybox\", \"--install\", \"-s\", \"/bin\"]\n\
                      WORKDIR /data\nENTRYPOINT [\"/bin/sh\"]\n";
    let _image = TestImage::build("mcp-sandbox-test-busybox", dockerfile);
    let app = TestApp::on_docker_with(&[
        ("POOL_SIZE", "test-busybox=1"),
        ("SANDBOX_REUSE", "conversation"),
        ("MAX_WARM_SANDBOXES", "1"),
    ])
    .await;
    app.parked("test-busybox", 1).await;
    let code = "ls / | tr '\\n' ' '; ls /lib* 2>/dev/null; sleep 100 & touch /tmp/left; exit 4";
    let mut told = Vec::new();
    for (environment, code, seconds) in [
        (json!({}), code, 20),
        (json!({}), "ls /tmp; kill -9 $$", 20),
        (json!({}), "while :; do :; done", 2),
        (json!({}), "tail -c 400m /dev/zero | wc -c", 20),
        (json!({ "WHO": "own" }), "echo $WHO", 20),
    ] {
        let arguments = json!({
            "conversationId": "demo", "language": "test-busybox", "code": code, "environment": environment,
            "timeoutSeconds": seconds,
        });
        let outcome = app.call("run_code", arguments).await;
        told.push(format!(
            "{} {} {} {}",
            outcome["status"], outcome["exitCode"], outcome["stdout"], outcome["stderr"]
        ));
    }
    let cold = TestApp::on_docker().await;
    let outcome = cold.run("test-busybox", "echo cold; ls /tmp").await;
    told.push(format!("{} {}", outcome["status"], outcome["stdout"]));
    cold.assert_nothing_is_left().await;
    insta::assert_snapshot!(told.join("\n"), @r#"
    "error" 4 "bin data dev etc mnt proc sys tmp " ""
    "error" 137 "" ""
    "timeout" null "" ""
    "ok" 0 "0\n" "Killed\n"
    "ok" 0 "own\n" ""
    "ok" "cold\n"
    "#);
    assert_eq!(["pool", "own"].map(|way| app.starts(way)), [1, 4]);
    app.assert_nothing_is_left().await;
}

/// Under another name, since all tests share the runners.
#[tokio::test]
async fn a_language_is_added_as_the_document_does() {
    let document = include_str!("../../docs/languages.md");
    let (_, dockerfile) = document.split_once("```dockerfile\n").unwrap();
    let (dockerfile, _) = dockerfile.split_once("```").unwrap();
    let dockerfile = dockerfile
        .replace("sandbox.language=tcl", "sandbox.language=test-tcl")
        .replace("sandbox.aliases=tclsh", "sandbox.aliases=");
    let app = TestApp::on_docker().await;
    let _image = TestImage::build("mcp-sandbox-test-tcl", &dockerfile);
    let code = "puts [lsort {3 1 2}]\nputs [pwd]";
    let ran = within(SEEN, "the server sees the image", async || {
        let outcome = app.run("test-tcl", code).await;
        (outcome["code"] != "unknown_language").then_some(outcome)
    })
    .await;
    assert_eq!(ran["stdout"], "1 2 3\n/data\n", "{ran}");
    app.assert_nothing_is_left().await;
}

/// It would be started again and again beside the programs, as their user, at their cost, and even between them.
#[tokio::test]
async fn an_image_is_not_asked_for_its_health() {
    let dockerfile = "FROM mcp-sandbox-shell:latest\nLABEL sandbox.language=test-health sandbox.aliases=\n\
                      HEALTHCHECK --interval=1s CMD touch /tmp/asked\n";
    let _image = TestImage::build("mcp-sandbox-test-health", dockerfile);
    let app = TestApp::on_docker_with(&[("POOL_SIZE", "test-health=1")]).await;
    app.parked("test-health", 1).await;
    let root = std::fs::read_to_string(app.root().join(".root-id")).unwrap();
    let ours = format!("label=sandbox.root={}", root.trim());
    let warm = docker(&["ps", "--quiet", "--filter", &ours]);
    let inspected = docker(&[
        "inspect",
        "--format",
        "{{json .Config.Healthcheck.Test}} {{json .State.Health}}",
        warm.trim(),
    ]);
    let result = app
        .run("test-health", "sleep 2; [ -e /tmp/asked ] || echo no")
        .await;
    app.assert_nothing_is_left().await;
    assert_eq!(inspected, "[\"NONE\"] null\n");
    assert_eq!(
        (&result["status"], &result["stdout"]),
        (&json!("ok"), &json!("no\n")),
        "{result}"
    );
}
