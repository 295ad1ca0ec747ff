//! Packages for TypeScript on the real engine, from a directory on the host.

use std::fs;

use serde_json::json;

use crate::docker_packages::{Host, install_for};

impl Host {
    /// Replaces something in what the server remembers of the conversation.
    pub(crate) fn remember(&self, this: &str, instead: &str) {
        let workspace = self.app.workspace("demo");
        let note = self
            .app
            .root()
            .join(".used")
            .join(workspace.file_name().unwrap());
        let before = fs::read_to_string(&note).unwrap();
        assert!(before.contains(this), "{before}");
        fs::write(&note, before.replace(this, instead)).unwrap();
    }
}

#[tokio::test]
async fn npm_packages_are_found_from_programs_and_from_their_modules() {
    let host = Host::with(&[
        ("POOL_SIZE", "typescript=1"),
        ("SANDBOX_REUSE", "conversation"),
    ])
    .await;
    host.app.parked("typescript", 1).await;
    host.run("typescript", "console.log(1)").await;
    let early = b"import a from 'tinya';\nexport const found = a && 'early';";
    host.app.upload("early.ts", early).await;
    let scoped = b"import s from '@tiny/scoped';\nexport const found = s && 'early';";
    host.app.upload("scoped.ts", scoped).await;
    for (code, name) in [
        ("import a from 'tinya'; a", "tinya"),
        ("import e from './early'; e", "tinya"),
        ("import s from '@tiny/scoped'; s", "@tiny/scoped"),
        ("import e from './scoped'; e", "@tiny/scoped"),
    ] {
        host.lacks("typescript", code, name).await;
    }
    let packages = json!(["tinya", {"name": "@tiny/scoped", "version": "^0.1"}, "pg"]);
    let mut answer = host.install("typescript", packages).await;
    answer["installed"][2]["version"] = "…".into();
    insta::with_settings!({ filters => [(r"pg \d+\.\d+\.\d+", "pg X.Y.Z")] }, {
        insta::assert_json_snapshot!(answer, @r#"
        {
          "success": true,
          "message": "Installed tinya 1.0.0, @tiny/scoped 0.1.0, tinyb 1.2.0. pg X.Y.Z is part of the runner",
          "installed": [
            {
              "name": "tinya",
              "version": "1.0.0"
            },
            {
              "name": "@tiny/scoped",
              "version": "0.1.0"
            },
            {
              "name": "pg",
              "version": "…"
            },
            {
              "name": "tinyb",
              "version": "1.2.0"
            }
          ],
          "durationMs": "…",
          "conversationId": "demo"
        }
        "#);
    });
    host.app
        .upload(
            "helper.ts",
            b"import a from 'tinya';\nimport b from 'tinyb';\nexport const found = 'helper: ' + a + ', ' + b;",
        )
        .await;
    let code = "import a from 'tinya';\nimport { found } from './helper';\nimport pg from 'pg';\n\
                console.log(a, '|', require('@tiny/scoped'), '|', found, '|', typeof pg.Client);";
    let expected =
        "a 1.0.0 with b 1.2.0 | scoped | helper: a 1.0.0 with b 1.2.0, b 1.2.0 | function\n";
    assert_eq!(host.run("typescript", code).await, expected);
    assert_eq!(host.run("typescript", code).await, expected);
    let cold = json!({ "environment": { "TZ": "UTC" } });
    let in_kernel = json!({ "stateful": true });
    for more in [cold, in_kernel] {
        let mut arguments = json!({ "conversationId": "demo", "language": "ts", "code": code });
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let outcome = host.app.call("run_code", arguments).await;
        assert_eq!(outcome["stdout"], expected, "{outcome}");
    }
    only_a_restart_loads_what_had_failed(&host).await;
    let mut answers = String::new();
    for packages in [json!(["nosuch"]), json!(["tinya", "file:../x"])] {
        let answer = host.install("typescript", packages.clone()).await;
        let line = format!("{packages} {}: {}\n", answer["code"], answer["message"]);
        answers.push_str(&line);
    }
    insta::with_settings!({ filters => [(r"\d+\.\d+\.\d+ is part", "X.Y.Z is part"), (r#"cannot be downloaded: [^\n]*""#, "…\""), (r"the package registry cannot be reached", "…"), (r"what was asked for is not[^…]*…", "…")] }, {
        insta::assert_snapshot!(answers, @r#"
        ["nosuch"] "package_offline": "off-line: …"
        ["tinya","file:../x"] "invalid_requirement": "packages: \"file:../x\" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be"
        "#);
    });
    // No package script ran, and what could not be installed changed nothing.
    assert!(!host.app.workspace("demo").join("ran").exists());
    assert_eq!(host.run("typescript", code).await, expected);
    host.ends().await;
}

#[tokio::test]
async fn a_directory_may_have_many_archives_and_some_that_are_no_packages() {
    let host = Host::new().await;
    let directory = host.wheelhouse.path();
    // Twice the limit on processes.
    for number in 0..256 {
        let copy = directory.join(format!("copy-{number}.tgz"));
        fs::copy(directory.join("tinyb-2.0.0.tgz"), copy).unwrap();
    }
    fs::write(directory.join("other.tgz"), "no archive").unwrap();
    fs::write(directory.join("empty.tgz"), "").unwrap();
    let answer = host
        .install("typescript", json!(["tinya", "@tiny/scoped"]))
        .await;
    let told = "Installed tinya 1.0.0, @tiny/scoped 0.1.0, tinyb 1.2.0";
    assert_eq!(answer["message"], told, "{answer}");
    host.ends().await;
}

#[tokio::test]
async fn requested_packages_win_over_dependencies() {
    let host = Host::new().await;
    for (conversation, packages, told) in [
        (
            "version-first",
            json!(["tinyb@1.0.0", "tinya"]),
            "tinyb 1.0.0, tinya 1.0.0",
        ),
        (
            "version-last",
            json!(["tinya", "tinyb@1.0.0"]),
            "tinya 1.0.0, tinyb 1.0.0",
        ),
        // The other package brings its own version of it.
        (
            "any-first",
            json!(["tinyb", "tinya"]),
            "tinyb 2.0.0, tinya 1.0.0",
        ),
        (
            "any-last",
            json!(["tinya", "tinyb"]),
            "tinya 1.0.0, tinyb 2.0.0",
        ),
    ] {
        let answer = install_for(&host.app, conversation, "typescript", packages).await;
        assert_eq!(answer["message"], format!("Installed {told}"), "{answer}");
    }
    let code = json!({
        "conversationId": "any-last", "language": "typescript",
        "code": "import a from 'tinya'; import b from 'tinyb'; console.log(a, '|', b)",
    });
    let outcome = host.app.call("run_code", code).await;
    assert_eq!(outcome["stdout"], "a 1.0.0 with b 1.2.0 | b 2.0.0\n");
    // What came along with an earlier package does not count.
    host.install("typescript", json!(["tinya"])).await;
    let answer = host.install("typescript", json!(["tinyb@1.0.0"])).await;
    assert_eq!(answer["message"], "Installed tinyb 1.0.0", "{answer}");
    let code = "import a from 'tinya'; console.log(a)";
    assert_eq!(host.run("typescript", code).await, "a 1.0.0 with b 1.0.0\n");
    host.ends().await;
}

#[tokio::test]
async fn packages_come_with_those_that_they_need_beside_them() {
    let host = Host::with(&[
        ("BLOCKED_PACKAGES", "@tiny/evil"),
        ("PACKAGE_COUNT_LIMIT", "2"),
    ])
    .await;
    let answer = host.install("typescript", json!(["tinypeer@1"])).await;
    let told = "Installed tinypeer 1.0.0, tinyb 1.2.0";
    assert_eq!(answer["message"], told, "{answer}");
    let code = "import p from 'tinypeer'; import b from 'tinyb'; console.log(p, '|', b)";
    let expected = "peer with b 1.2.0 | b 1.2.0\n";
    assert_eq!(host.run("typescript", code).await, expected);
    // They count towards the limit, and what is blocked does not come in that way either.
    let answer = host.install("typescript", json!(["@tiny/scoped"])).await;
    assert_eq!(answer["code"], "package_too_large", "{answer}");
    let answer = host.install("typescript", json!(["tinypeer@2"])).await;
    assert_eq!(answer["code"], "package_blocked", "{answer}");
    assert_eq!(host.run("typescript", code).await, expected);
    // A version other than the wanted one is taken if it was asked for, as from a registry.
    let packages = json!(["tinypeer@1", "tinyb@2"]);
    let answer = install_for(&host.app, "other", "typescript", packages).await;
    let told = "Installed tinypeer 1.0.0, tinyb 2.0.0";
    assert_eq!(answer["message"], told, "{answer}");
    host.ends().await;
}

#[tokio::test]
async fn another_version_takes_the_place_of_the_runners() {
    let host = Host::with(&[("SANDBOX_REUSE", "conversation")]).await;
    let code = "import pg from 'pg'; console.log(typeof pg === 'string' ? pg : 'ours')";
    assert_eq!(host.run("typescript", code).await, "ours\n");
    host.app
        .upload("helper.ts", b"import pg from 'pg';\nexport default pg;")
        .await;
    let answer = host.install("typescript", json!(["pg@1"])).await;
    assert_eq!(answer["message"], "Installed pg 1.0.0", "{answer}");
    // An install of something else keeps it.
    host.install("typescript", json!(["tinyb"])).await;
    let code = "import pg from 'pg'; import other from './helper'; console.log(pg, '|', other)";
    let expected = "mine 1.0.0 | mine 1.0.0\n";
    assert_eq!(host.run("typescript", code).await, expected);
    let cell = json!({
        "conversationId": "demo", "language": "typescript", "code": code, "stateful": true,
    });
    assert_eq!(host.app.call("run_code", cell).await["stdout"], expected);
    host.ends().await;
}

#[tokio::test]
async fn packages_come_with_their_parts_for_this_machine() {
    let host = Host::new().await;
    let answer = host.install("typescript", json!(["tinynative"])).await;
    let told = "Installed tinynative 1.0.0, @tiny/here 1.0.0, @tiny/inner 1.0.0";
    assert_eq!(answer["message"], told, "{answer}");
    let code = "import n from 'tinynative'; console.log(n)";
    assert_eq!(host.run("typescript", code).await, "@tiny/here\n");
    host.ends().await;
}

/// A module that could not be loaded in a kernel because a package was missing that is installed now.
async fn only_a_restart_loads_what_had_failed(host: &Host) {
    let arguments = |module: &str, restart: bool| {
        json!({
            "conversationId": "demo",
            "language": "ts",
            "code": format!("import {{ found }} from './{module}'; found"),
            "stateful": true,
            "restart": restart,
        })
    };
    let modules = [("early", "tinya"), ("scoped", "@tiny/scoped")];
    for (module, package) in modules {
        let outcome = host.app.call("run_code", arguments(module, false)).await;
        assert_eq!(
            outcome["stderr"],
            format!(
                "error: /data/{module}.ts is kept from before {package} was installed: run this with restart: true\n"
            )
        );
        assert_eq!(
            outcome["hint"],
            "The program ended with exit code 1: see stderr. The kernel and its variables live on."
        );
    }
    for (module, _) in modules {
        let outcome = host.app.call("run_code", arguments(module, true)).await;
        assert_eq!(outcome["stdout"], "\"early\"\n", "{outcome}");
    }
}
