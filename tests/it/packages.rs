//! Installs on the fake engine, where a few lines of shell stand for the package clients: turns, names, and what is
//! remembered.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use serde_json::{Value, json};

use crate::support::{TestApp, eventually, stable};

/// How many files a conversation has whose measuring takes a while. ext4 gives a file 65,000 names.
const MANY: usize = 60_000;

impl TestApp {
    async fn with_packages_for(language: &str, settings: &[(&str, &str)]) -> Self {
        let app = Self::on_fake_speaking(&[language], settings).await;
        let fake = app.fake.as_ref().unwrap();
        // The second step is recognised by where it finds what the first one fetched.
        fake.imitate("/packages/fetched", "mkdir tree\necho made > tree/module");
        app
    }

    /// Sets what the package client finds from now on, as `name version`, and what these packages have for themselves.
    fn index_has(&self, packages: &[&str], others: &[&str]) {
        let found = |packages: &[&str]| {
            let found = packages.iter().map(|package| {
                let (name, version) = package.split_once(' ').unwrap();
                json!({ "name": name, "version": version })
            });
            found.collect::<Value>()
        };
        let answer = json!({
            "outcome": "fetched", "packages": found(packages), "others": found(others), "provided": [], "files": [],
            "bytes": 1,
        });
        let fake = self.fake.as_ref().unwrap();
        fake.imitate("PACKAGES_REQUEST", &format!("echo {answer}"));
    }

    async fn install(&self, language: &str, packages: &[&str]) -> Value {
        let arguments =
            json!({ "conversationId": "demo", "language": language, "packages": packages });
        stable(self.call("install_packages", arguments).await)
    }

    /// What the server remembers of the conversation's packages; empty if nothing.
    fn remembered(&self) -> String {
        fs::read_to_string(self.remembers()).unwrap_or_default()
    }

    fn remembers(&self) -> PathBuf {
        let workspace = self.workspace("demo");
        self.root()
            .join(".used")
            .join(workspace.file_name().unwrap())
    }
}

#[tokio::test]
async fn an_engine_without_room_is_a_busy_server() {
    let app = TestApp::with_packages_for("python", &[]).await;
    app.fake.as_ref().unwrap().fill_up();
    let turned_away = app.install("python", &["six"]).await;
    assert_eq!(turned_away["code"], "busy", "{turned_away}");
    assert_eq!(turned_away["retryAfterSeconds"], 10, "{turned_away}");
}

#[tokio::test]
async fn an_install_that_is_ended_while_it_is_put_in_place_changes_nothing() {
    for deleted in [false, true] {
        let app = TestApp::with_packages_for("python", &[]).await;
        app.index_has(&["six 1.17.0"], &[]);
        app.upload("0", b"x").await;
        let data = app.workspace("demo");
        for number in 1..MANY {
            fs::hard_link(data.join("0"), data.join(number.to_string())).unwrap();
        }
        // The mode is repaired just before something is put there.
        fs::set_permissions(&data, fs::Permissions::from_mode(0o775)).unwrap();
        let mode = || fs::metadata(&data).unwrap().permissions().mode() & 0o777;
        let ending = async {
            eventually("packages are about to be put in place", || mode() == 0o700).await;
            if deleted {
                let arguments = json!({ "conversationId": "demo" });
                app.call("delete_conversation", arguments).await;
            } else {
                app.app.parts.gate.end_all();
            }
        };
        let (answer, ()) = tokio::join!(app.install("python", &["six"]), ending);
        app.app
            .parts
            .files
            .workspaces
            .wait_for_background_work()
            .await;
        assert_eq!(answer["code"], "cancelled", "{answer}");
        assert!(!data.join(".packages/python").exists());
        assert_eq!(
            (data.exists(), app.remembers().exists()),
            (!deleted, !deleted)
        );
        assert_eq!(app.remembered(), "");
        // The next install is let in.
        let answer = app.install("python", &["six"]).await;
        assert_eq!(answer["message"], "Installed six 1.17.0", "{answer}");
        assert!(data.join(".packages/python/module").exists());
        assert!(app.remembered().contains("six==1.17.0"));
        app.assert_nothing_is_left().await;
    }
}

#[tokio::test]
async fn an_install_that_takes_place_is_not_answered_as_cancelled() {
    let app = TestApp::with_packages_for("python", &[]).await;
    app.index_has(&["six 1.17.0"], &[]);
    // Reading or writing this list waits for somebody at its other end.
    app.upload("file", b"x").await;
    let list = app.remembers();
    fs::remove_file(&list).unwrap();
    mknodat(CWD, &list, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let other_end = |options: &mut OpenOptions| {
        let nonblock = OFlags::NONBLOCK.bits().cast_signed();
        options.custom_flags(nonblock).open(&list)
    };
    let python = app.workspace("demo").join(".packages/python");
    let ending = async {
        let reader = || other_end(OpenOptions::new().write(true)).is_ok();
        eventually("the list of before is read", reader).await;
        eventually("packages are in place", || python.exists()).await;
        app.app.parts.gate.end_all();
    };
    let (answer, ()) = tokio::join!(app.install("python", &["six"]), ending);
    let _writers_go_on = other_end(OpenOptions::new().read(true)).unwrap();
    assert_eq!(answer["message"], "Installed six 1.17.0", "{answer}");
    assert!(app.remembered().contains("six==1.17.0"));
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn an_install_that_got_no_place_is_not_counted() {
    let limits = [
        ("MAX_CONCURRENT_RUNS", "1"),
        ("MAX_QUEUED_RUNS", "0"),
        ("PACKAGE_RATE_LIMIT", "1/h"),
    ];
    let app = TestApp::with_packages_for("python", &limits).await;
    app.index_has(&["six 1.17.0"], &[]);
    let refused = async {
        eventually("the run is in progress", || {
            app.app.parts.gate.admission.running() == 1
        })
        .await;
        app.install("python", &["six"]).await
    };
    let (_, refused) = tokio::join!(app.run("python", "sleep 0.5"), refused);
    assert_eq!(refused["code"], "busy", "{refused}");
    let mut codes = Vec::new();
    for _ in 0..2 {
        codes.push(app.install("python", &["six"]).await["code"].clone());
    }
    assert_eq!(codes, [json!(null), json!("rate_limited")]);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn names_of_npm_are_told_apart_as_they_are_written() {
    let lists = [
        ("ALLOWED_PACKAGES", "jquery.cookie,jquery_cookie"),
        ("BLOCKED_PACKAGES", "left_pad"),
    ];
    let app = TestApp::with_packages_for("typescript", &lists).await;
    let mut answers = Vec::new();
    for (packages, found) in [
        (&["jquery-cookie"][..], &[][..]),
        (
            &["jquery.cookie@1"],
            &["jquery.cookie 1.4.1", "left_pad 1.0.0"],
        ),
        (
            &["jquery.cookie@1"],
            &["jquery.cookie 1.4.1", "left-pad 1.0.0"],
        ),
        (
            &["jquery_cookie"],
            &[
                "jquery.cookie 1.4.1",
                "jquery_cookie 2.0.0",
                "left-pad 1.0.0",
            ],
        ),
    ] {
        app.index_has(found, &[]);
        let answer = app.install("typescript", packages).await;
        answers.push(answer["message"].as_str().unwrap().to_owned());
    }
    insta::assert_snapshot!(answers.join("\n"), @"
    jquery-cookie was not installed: it is not among the packages that the operator allows (ALLOWED_PACKAGES). Do without it, or ask the operator
    left_pad was not installed: a package that was asked for, now or earlier in this conversation, depends on it, and the operator blocks it (BLOCKED_PACKAGES). Do without it, or ask the operator
    Installed jquery.cookie 1.4.1, left-pad 1.0.0
    Installed jquery_cookie 2.0.0
    ");
    // Neither was taken for the other.
    let remembered = app.remembered();
    for asked in ["jquery.cookie@1.4.1", "jquery_cookie@2.0.0"] {
        assert!(remembered.contains(asked), "{remembered}");
    }
    let both = app
        .install("typescript", &["jquery.cookie", "jquery_cookie"])
        .await;
    assert_eq!(both["success"], true, "{both}");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn bundled_packages_are_not_listed_but_may_be_blocked() {
    let lists = [("BLOCKED_PACKAGES", "left-pad")];
    let app = TestApp::with_packages_for("typescript", &lists).await;
    app.index_has(&["debug 2.6.9", "ms 2.1.3"], &["ms 2.0.0"]);
    let answer = app.install("typescript", &["debug", "ms"]).await;
    assert_eq!(answer["message"], "Installed debug 2.6.9, ms 2.1.3");
    assert!(!app.remembered().contains("2.0.0"), "{}", app.remembered());
    // From before the operator blocked it.
    let before = app.remembered().replace("ms@2.1.3", "left-pad@1.0.0");
    fs::write(app.remembers(), before.replace("\"ms\"", "\"left-pad\"")).unwrap();
    let answer = app.install("typescript", &["debug"]).await;
    insta::assert_snapshot!(answer["message"].as_str().unwrap(), @"Installed debug 2.6.9, ms 2.1.3. left-pad is no longer there: the operator's lists forbid it by now (ALLOWED_PACKAGES, BLOCKED_PACKAGES)");
    assert!(
        !app.remembered().contains("left-pad"),
        "{}",
        app.remembered()
    );
    app.index_has(&["debug 2.6.9"], &["left-pad 1.0.0"]);
    let answer = app.install("typescript", &["debug"]).await;
    assert_eq!(answer["code"], "package_blocked", "{answer}");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn an_install_is_recorded_as_it_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.log");
    let path = log.display().to_string();
    let app = TestApp::with_packages_for("python", &[("AUDIT_LOG", &path)]).await;
    app.index_has(&["six 1.17.0"], &[]);
    let packages =
        json!(["six>=1", { "name": "attrs", "version": "==25.1" }, "https://example.org/x"]);
    let arguments = json!({ "conversationId": "demo", "language": "python", "packages": packages });
    let refused = app.call("install_packages", arguments.clone()).await;
    assert_eq!(refused["code"], "invalid_requirement");
    let mut arguments = arguments;
    arguments["packages"] = json!([packages[0], packages[1]]);
    let answer = app.call("install_packages", arguments).await;
    assert_eq!(answer["success"], true, "{answer}");
    app.assert_nothing_is_left().await;
    let text = fs::read_to_string(&log).unwrap();
    let mut lines = text.lines().filter(|line| line.contains("packages_"));
    let mut line: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    let fields = line.as_object_mut().unwrap();
    fields.retain(|name, _| name != "at" && name != "prev");
    insta::assert_snapshot!(line, @r#"{"seq":3,"event":"packages_installed","tenant":"default","subject":"48904f832917","via":"install_packages","conversation":"d37f9d488864","language":"python","count":2,"packages":["six>=1","attrs ==25.1"]}"#);
    assert_eq!(lines.count(), 0);
}
