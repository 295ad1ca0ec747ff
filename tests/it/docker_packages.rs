//! Packages on the real engine, from a directory on the host: without any network, as on a host without internet.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::support::{TestApp, eventually, stable};

/// Indexes that refuse every connection: the host of these tests may have a network.
const NOBODY: [(&str, &str); 2] = [
    ("PIP_INDEX_URL", "http://127.0.0.1:9/simple"),
    ("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9/"),
];

/// A server whose operator has a directory of packages.
pub(crate) struct Host {
    pub(crate) app: TestApp,
    pub(crate) wheelhouse: TempDir,
}

impl Host {
    pub(crate) async fn new() -> Self {
        Self::with(&[]).await
    }

    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        let wheelhouse = tempfile::tempdir().unwrap();
        fs::set_permissions(wheelhouse.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = wheelhouse.path().display().to_string();
        let settings = [settings, &NOBODY, &[("PACKAGE_WHEELHOUSE", &path)]].concat();
        let app = TestApp::on_docker_with(&settings).await;
        make_packages(&app, wheelhouse.path()).await;
        Self { app, wheelhouse }
    }

    pub(crate) async fn install(&self, language: &str, packages: Value) -> Value {
        install_for(&self.app, "demo", language, packages).await
    }

    /// What a program prints.
    pub(crate) async fn run(&self, language: &str, code: &str) -> String {
        let outcome = self.app.run(language, code).await;
        assert_eq!(outcome["status"], "ok", "{outcome}");
        outcome["stdout"].as_str().unwrap().to_owned()
    }

    /// What a program that lacks a library is told, in a run of its own and in the conversation's kernel.
    pub(crate) async fn lacks(&self, language: &str, code: &str, name: &str) {
        for stateful in [false, true] {
            let arguments = json!({
                "conversationId": "demo", "language": language, "code": code, "stateful": stateful,
            });
            let outcome = self.app.call("run_code", arguments).await;
            let way_out = format!(
                "{name} is not installed: add the package that has it with install_packages, then run the program again."
            );
            let hint = outcome["hint"].as_str().unwrap_or_default();
            assert!(hint.contains(&way_out), "{outcome}");
        }
    }

    /// The packages of the conversation, as the host sees them.
    fn packages(&self) -> std::path::PathBuf {
        self.app.workspace("demo").join(".packages")
    }

    pub(crate) async fn ends(self) {
        self.app.assert_nothing_is_left().await;
        nothing_is_under_way(&self.app).await;
    }
}

/// Puts the packages of `tests/fixtures/packages.py` into a directory. The first test that wants them makes them.
pub(crate) async fn make_packages(app: &TestApp, directory: &Path) {
    static MADE: OnceCell<Vec<(OsString, Vec<u8>)>> = OnceCell::const_new();
    for (name, content) in MADE.get_or_init(|| packages(app)).await {
        fs::write(directory.join(name), content).unwrap();
    }
}

/// All files that the program makes, with their names.
async fn packages(app: &TestApp) -> Vec<(OsString, Vec<u8>)> {
    let arguments = json!({
        "conversationId": "maker",
        "language": "python",
        "code": include_str!("../fixtures/packages.py"),
    });
    let made = app.call("run_code", arguments).await;
    assert_eq!(made["status"], "ok", "{made}");
    let files = fs::read_dir(app.workspace("maker")).unwrap().flatten();
    files
        .map(|file| (file.file_name(), fs::read(file.path()).unwrap()))
        .collect()
}

/// Installs for a conversation.
pub(crate) async fn install_for(
    app: &TestApp,
    conversation: &str,
    language: &str,
    packages: Value,
) -> Value {
    let arguments =
        json!({ "conversationId": conversation, "language": language, "packages": packages });
    stable(app.call("install_packages", arguments).await)
}

/// The private directory is empty once what was taken out of sight is deleted, which waits for the engine.
async fn nothing_is_under_way(app: &TestApp) {
    eventually("the private directory is empty", || {
        fs::read_dir(app.root().join(".tmp"))
            .unwrap()
            .next()
            .is_none()
    })
    .await;
}

#[tokio::test]
async fn installed_packages_are_importable_in_later_runs() {
    let host = Host::with(&[("POOL_SIZE", "python=1"), ("SANDBOX_REUSE", "conversation")]).await;
    host.app.parked("python", 1).await;
    // The conversation has a warm sandbox before anything is installed.
    host.run("python", "print(1)").await;
    host.lacks("python", "import tinyone", "tinyone").await;
    insta::assert_json_snapshot!(host.install("python", json!(["tinyone==1.0", {"name": "tinyfast"}])).await, @r#"
    {
      "success": true,
      "message": "Installed tinyone 1.0, tinyfast 1.0, tiny-dep 1.5",
      "installed": [
        {
          "name": "tinyone",
          "version": "1.0"
        },
        {
          "name": "tinyfast",
          "version": "1.0"
        },
        {
          "name": "tiny-dep",
          "version": "1.5"
        }
      ],
      "durationMs": "…",
      "conversationId": "demo"
    }
    "#);
    let code = "import tinyone, tiny_dep, tinyfast, tinyfast._queue as fast, subprocess, sys\n\
                print(tinyone.VALUE, tiny_dep.VALUE, fast.__name__, fast.SimpleQueue().empty())\n\
                print(subprocess.run(['tinyone-cli'], capture_output=True, text=True).stdout.strip())\n\
                print(sys.path[-2:], tinyone.__cached__)";
    let expected = "one 1.0 dep 1.5 tinyfast._queue True\ncli one 1.0\n\
                    ['/data/.packages/python', '/data'] /data/.packages/python/tinyone/__pycache__/__init__.cpython-313.pyc\n";
    assert_eq!(host.run("python", code).await, expected);
    assert_eq!(host.run("python", code).await, expected);
    // In a new container too.
    let cold = json!({
        "conversationId": "demo", "language": "python", "code": code, "environment": { "PYTHONHASHSEED": "1" },
    });
    let outcome = host.app.call("run_code", cold).await;
    assert_eq!(outcome["stdout"], expected, "{outcome}");
    // They do not count as files of the conversation.
    assert_eq!(outcome["files"], json!([]));
    let arguments =
        json!({ "conversationId": "demo", "filename": ".packages/python/tinyone/__init__.py" });
    let read = host.app.call("read_file", arguments).await;
    assert_eq!(read["code"], "invalid_arguments");
    let metrics = host.app.app.parts.metrics.render(|_| {});
    for series in [
        "mcp_sandbox_installs_total{language=\"python\",outcome=\"ok\"} 1\n",
        "mcp_sandbox_install_duration_seconds_count{language=\"python\"} 1\n",
    ] {
        assert!(metrics.contains(series), "{metrics}");
    }
    host.ends().await;
}

#[tokio::test]
async fn installs_add_up_and_earlier_ones_keep_their_versions() {
    let host = Host::new().await;
    host.install("python", json!(["tinyone==1.0"])).await;
    insta::assert_json_snapshot!(host.install("python", json!(["tinyother", "numpy"])).await, @r#"
    {
      "success": true,
      "message": "Installed tinyother 1.0. numpy 2.5.5 is part of the runner",
      "installed": [
        {
          "name": "tinyother",
          "version": "1.0"
        },
        {
          "name": "numpy",
          "version": "2.5.5"
        }
      ],
      "durationMs": "…",
      "conversationId": "demo"
    }
    "#);
    let versions = "from importlib.metadata import version as v\nprint(v('tinyone'), v('tinyother'), v('tiny-dep'))";
    assert_eq!(host.run("python", versions).await, "1.0 1.0 1.5\n");
    // Whatever programs do to it, the next install makes it anew.
    host.run("python", "import shutil; shutil.rmtree('/data/.packages')")
        .await;
    let again = host
        .install("python", json!([{"name": "TinyOne", "version": ">1"}]))
        .await;
    assert_eq!(
        again["installed"],
        json!([{ "name": "tinyone", "version": "2.0" }])
    );
    assert_eq!(host.run("python", versions).await, "2.0 1.0 1.5\n");
    // As after an install from an index that no longer has that version.
    host.remember("\"tinyother==1.0\"", "\"tinyother==7\"");
    let again = host.install("python", json!(["tinyone"])).await;
    let told = again["message"].as_str().unwrap();
    assert!(
        told.contains("What was asked for earlier can be removed: tinyother==7"),
        "{again}"
    );
    let again = host
        .change("python", json!(["tinyone"]), json!(["tinyother"]))
        .await;
    assert_eq!(again["message"], "Installed tinyone 2.0. Removed tinyother");
    host.ends().await;
}

#[tokio::test]
async fn a_failed_install_is_explained_and_changes_nothing() {
    let host = Host::with(&[
        ("BLOCKED_PACKAGES", "Tiny_Dep,evil"),
        ("PACKAGE_SIZE_LIMIT", "2m"),
        ("PACKAGE_RATE_LIMIT", "100/h"),
    ])
    .await;
    host.install("python", json!(["tinyfast"])).await;
    let mut answers = String::new();
    for packages in [
        json!(["EVIL"]),
        json!(["tinyone"]),
        json!(["nosuch"]),
        json!(["tinyfast==7"]),
        json!(["tinyforeign"]),
        json!(["tinyfuture"]),
        json!(["tinysource"]),
        json!(["tinynumpy"]),
        json!(["numpy==0.9"]),
        json!(["traitlets==1.0"]),
        json!(["tinyescape"]),
        json!(["tinyreference"]),
        json!(["tinyindirect"]),
        json!(["tinylarge"]),
        json!(["six @ https://example.org/six.whl"]),
        json!(["six", "SIX==1"]),
        json!([]),
        json!([7]),
    ] {
        let answer = host.install("python", packages.clone()).await;
        let words = format!("{packages} {}: {}\n", answer["code"], answer["message"]);
        answers.push_str(&words);
    }
    insta::with_settings!({ filters => [(r"\d+\.\d+\.\d+", "X.Y.Z"), (r"take \d+ bytes", "take N bytes"), (r#"cannot be downloaded: [^\n]*""#, "…\""), (r"the package index cannot be reached", "…"), (r"what was asked for is not[^…]*…", "…")] }, {
        insta::assert_snapshot!(answers, @r#"
        ["EVIL"] "package_blocked": "evil was not installed: the operator blocks it (BLOCKED_PACKAGES). Do without it, or ask the operator"
        ["tinyone"] "package_blocked": "tiny-dep was not installed: a package that was asked for, now or earlier in this conversation, depends on it, and the operator blocks it (BLOCKED_PACKAGES). Do without it, or ask the operator"
        ["nosuch"] "package_offline": "off-line: …"
        ["tinyfast==7"] "package_offline": "off-line: …"
        ["tinyforeign"] "package_incompatible": "incompatible: tinyforeign has no wheel for Python 3.13 and this machine, nor has any other version"
        ["tinyfuture"] "package_incompatible": "incompatible: Package 'tinyfuture' requires a different Python: X.Y.Z not in '>=4'"
        ["tinysource"] "package_incompatible": "incompatible: tinysource has no wheel for Python 3.13 and this machine, nor has any other version"
        ["tinynumpy"] "package_incompatible": "incompatible: Cannot install tinynumpy==1.0 because these package versions have conflicting dependencies. tinynumpy 1.0 depends on numpy<1 asked for: (part of the runner) numpy==X.Y.Z"
        ["numpy==0.9"] "package_incompatible": "incompatible: numpy==0.9 has no wheel for Python 3.13 and this machine: versions that have one are 1.0"
        ["traitlets==1.0"] "package_incompatible": "incompatible: ipython X.Y.Z, which kernels of the runner are made of, needs traitlets>=X.Y.Z"
        ["tinyescape"] "package_incompatible": "incompatible: what was downloaded cannot be unpacked: For req: tinyescape==1.0. The wheel 'tinyescape-1.0-py3-none-any.whl' has a file '../../../../escaped.py' trying to install outside the target directory ''. Ask for another version"
        ["tinyreference"] "package_incompatible": "incompatible: tinyreference needs tinysource from an address of its own, and packages come from the index only"
        ["tinyindirect"] "package_incompatible": "incompatible: tinyreference needs tinysource from an address of its own, and packages come from the index only"
        ["tinylarge"] "package_too_large": "too large: the packages take N bytes, the limit is 2097152 (PACKAGE_SIZE_LIMIT). Ask for less, or for smaller packages"
        ["six @ https://example.org/six.whl"] "invalid_requirement": "packages: \"six @ https://example.org/six.whl\" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be"
        ["six","SIX==1"] "invalid_arguments": "packages names six more than once: give it once"
        [] "invalid_arguments": "packages has 0 entries: give 1 to 50"
        [7] "invalid_arguments": "install_packages: packages[0]: expected \"name\", \"name==version\" or {\"name\", \"version\"}"
        "#);
    });
    let language = host.install("shell", json!(["six"])).await;
    insta::assert_snapshot!(language["message"].as_str().unwrap(), @r#"packages cannot be installed for the language "shell": give one of python, typescript"#);
    assert_eq!(
        host.run("python", "import tinyfast; print(tinyfast.VALUE)")
            .await,
        "fast\n"
    );
    host.ends().await;
}

#[tokio::test]
async fn packages_without_wheel_are_built_only_if_allowed() {
    let host = Host::with(&[("ALLOW_SOURCE_BUILDS", "1")]).await;
    let answer = host
        .install("python", json!(["tinysource", "tinyone"]))
        .await;
    assert_eq!(answer["success"], true, "{answer}");
    let code = "import tinysource, tinyone; print(tinysource.VALUE, tinyone.VALUE)";
    assert_eq!(host.run("python", code).await, "built one 2.0\n");
    // Not what a package points at.
    let answer = host.install("python", json!(["tinyindirect"])).await;
    assert_eq!(
        answer["message"],
        "incompatible: tinyreference needs tinysource from an address of its own, and packages come from the index only"
    );
    host.ends().await;
}

#[tokio::test]
async fn a_build_does_not_spoil_what_is_kept_for_others() {
    let host = Host::with(&[("ALLOW_SOURCE_BUILDS", "1")]).await;
    // If its wheel is not named after it, it gets no further.
    let answer = host.install("python", json!(["tinysneaky"])).await;
    assert_eq!(answer["code"], "package_incompatible", "{answer}");
    let kept = || {
        let kept = fs::read_dir(host.app.root().join(".packages/cache")).unwrap();
        let folders = kept.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
        let mut names: Vec<_> = folders
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let sneaked = "tinysneaky-9-py3-none-any.whl".to_owned();
    assert!(kept().contains(&sneaked), "{:?}", kept());
    let answer = install_for(&host.app, "other", "python", json!(["tiny-dep"])).await;
    assert_eq!(answer["message"], "Installed tiny-dep 1.5", "{answer}");
    assert!(!kept().contains(&sneaked), "{:?}", kept());
    host.ends().await;
}

#[tokio::test]
async fn nothing_in_the_workspace_has_a_say() {
    let host = Host::new().await;
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("keep"), "mine").unwrap();
    host.run("python", "import os\n\
        for name in ['pip', 'sitecustomize', 'usercustomize', 'json', 'glob', 'subprocess', 'encodings']:\n    \
            open(name + '.py', 'w').write('import os; os.system(\"echo planted >/data/ran\")')\n\
        open('pip.conf', 'w').write('[global]\\nindex-url = http://127.0.0.1:1/')\n\
        open('setup.cfg', 'w').write('[install]\\nprefix = /data')\n")
        .await;
    // Links that lead out of the workspace, for the server, which is root.
    for (link, target) in [
        (".packages", outside.path().to_path_buf()),
        (".packages", "/nowhere".into()),
    ] {
        let link = host.app.workspace("demo").join(link);
        let _ = fs::remove_dir_all(&link);
        let _ = fs::remove_file(&link);
        symlink(target, &link).unwrap();
        let answer = host.install("python", json!(["tinyone"])).await;
        assert_eq!(answer["success"], true, "{answer}");
        assert!(fs::symlink_metadata(&link).unwrap().is_dir());
    }
    for target in [outside.path().to_path_buf(), "/nowhere".into()] {
        let link = host.packages().join("python");
        fs::remove_dir_all(&link).unwrap();
        symlink(target, &link).unwrap();
        let answer = host.install("python", json!(["tinyone"])).await;
        assert_eq!(answer["success"], true, "{answer}");
        assert!(fs::symlink_metadata(&link).unwrap().is_dir());
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert!(!host.app.workspace("demo").join("ran").exists());
    host.ends().await;
}

#[tokio::test]
async fn the_quota_and_the_limits_hold_for_packages() {
    let host = Host::with(&[
        ("WORKSPACE_QUOTA", "8m"),
        ("PACKAGE_RATE_LIMIT", "4/h"),
        ("PACKAGE_COUNT_LIMIT", "1"),
    ])
    .await;
    host.install("python", json!(["tinyfast"])).await;
    let answer = host.install("python", json!(["tinylarge"])).await;
    assert_eq!(answer["code"], "package_too_large", "{answer}");
    let answer = host.install("python", json!(["tinyone"])).await;
    assert_eq!(answer["code"], "package_too_large", "{answer}");
    // What was there before is still there.
    assert_eq!(fs::read_dir(host.packages()).unwrap().count(), 1);
    let fill =
        "import shutil\nshutil.rmtree('.packages')\nopen('big', 'wb').write(b'x' * 8_370_000)";
    host.run("python", fill).await;
    let answer = host.install("python", json!(["tinyfast"])).await;
    assert_eq!(answer["code"], "quota_exceeded", "{answer}");
    let answer = host.install("python", json!(["tinyfast"])).await;
    assert_eq!(answer["code"], "rate_limited");
    assert!(answer["retryAfterSeconds"].as_u64().unwrap() > 60);
    host.ends().await;
}

#[tokio::test]
async fn an_install_that_is_given_up_leaves_nothing() {
    let host = Host::with(&[("PACKAGE_TIMEOUT", "1ms")]).await;
    let answer = host.install("python", json!(["tinyone"])).await;
    assert_eq!(answer["code"], "install_timeout", "{answer}");
    assert!(!host.app.workspace("demo").exists());
    host.ends().await;

    let host = Host::new().await;
    let live = || host.app.app.parts.launcher.live_count();
    eventually("the maker's container is gone, if there was one", || {
        live() == 0
    })
    .await;
    let installing = host.install("python", json!(["tinyone"]));
    let deleting = async {
        eventually("a container works", || live() > 0).await;
        // Another one has to wait.
        let answer = host.install("python", json!(["tinyone"])).await;
        assert_eq!(answer["code"], "install_busy", "{answer}");
        host.app
            .call("delete_conversation", json!({ "conversationId": "demo" }))
            .await
    };
    let (answer, _) = tokio::join!(installing, deleting);
    assert_eq!(answer["code"], "cancelled", "{answer}");
    assert!(!host.app.workspace("demo").exists());
    let answer = tokio::time::timeout(
        Duration::from_mins(1),
        host.install("python", json!(["tinyone"])),
    );
    assert_eq!(answer.await.unwrap()["success"], true);
    host.app
        .call("delete_conversation", json!({ "conversationId": "demo" }))
        .await;
    assert!(!host.app.workspace("demo").exists());
    // Nor does the note remember it.
    let answer = host.install("python", json!(["tinyfast"])).await;
    assert_eq!(answer["success"], true);
    assert!(!host.packages().join("python/tinyone").exists());
    host.ends().await;
}
