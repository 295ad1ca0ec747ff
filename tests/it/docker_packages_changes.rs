//! Packages that go again: because they are not wanted any more, or because another one has the same files.

use std::fs;

use serde_json::{Value, json};

use crate::docker_packages::Host;
use crate::support::stable;

impl Host {
    /// Installs some and removes others.
    pub(crate) async fn change(&self, language: &str, packages: Value, remove: Value) -> Value {
        let arguments = json!({
            "conversationId": "demo", "language": language, "packages": packages, "remove": remove,
        });
        stable(self.app.call("install_packages", arguments).await)
    }

    /// What changes say.
    async fn messages(&self, language: &str, changes: &[(Value, Value)]) -> String {
        let mut messages = String::new();
        for (packages, remove) in changes {
            let answer = self
                .change(language, packages.clone(), remove.clone())
                .await;
            let words = format!("{} {}\n", answer["code"], answer["message"]);
            messages.push_str(&words);
        }
        messages
    }
}

#[tokio::test]
async fn installed_packages_can_be_removed() {
    let host = Host::with(&[("POOL_SIZE", "python=1"), ("SANDBOX_REUSE", "conversation")]).await;
    let messages = host
        .messages(
            "python",
            &[
                (json!([]), json!(["tinyone"])),
                (json!(["tinyone", "tinyother", "tinyfast"]), json!([])),
                (json!([]), json!(["tinyother", "Tiny.Dep", "nosuch"])),
                (json!(["tinyone"]), json!(["tinyone"])),
                (json!([]), json!(["tinyone==2.0"])),
                (json!([]), json!(["https://example.org/x.whl"])),
                (json!(["tinycv"]), json!("tinyother, TinyFast")),
            ],
        )
        .await;
    insta::assert_snapshot!(messages, @r#"
    "package_not_installed" "remove: tinyone cannot be removed: nothing was asked for in this conversation"
    null "Installed tinyone 2.0, tinyother 1.0, tinyfast 1.0, tiny-dep 1.5"
    "package_not_installed" "remove: tiny-dep, nosuch cannot be removed: what was asked for in this conversation is tinyone, tinyother, tinyfast, and what came along with it goes when nothing needs it"
    "invalid_arguments" "tinyone is in packages and in remove: give it in one of them"
    "invalid_arguments" "remove: \"tinyone==2.0\" has a version: give the name alone"
    "invalid_requirement" "remove: \"https://example.org/x.whl\" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be"
    null "Installed tinycv 1.0. Removed tinyother, tinyfast"
    "#);
    let code = "import importlib.util as u\n\
                print([name for name in ('tinyone', 'tiny_dep', 'tinyother', 'tinyfast', 'tinycv2') if u.find_spec(name)])";
    assert_eq!(
        host.run("python", code).await,
        "['tinyone', 'tiny_dep', 'tinycv2']\n"
    );
    let messages = host
        .messages(
            "python",
            &[
                (json!(["tiny-dep"]), json!([])),
                (json!([]), json!(["tiny-dep"])),
                (json!([]), json!(["tinyone", "tinycv"])),
                (json!([]), json!(["tinyone"])),
            ],
        )
        .await;
    insta::assert_snapshot!(messages, @r#"
    null "Installed tiny-dep 1.5"
    null "tiny-dep is still there, since other packages need it"
    null "Removed tinyone, tinycv"
    "package_not_installed" "remove: tinyone cannot be removed: nothing was asked for in this conversation"
    "#);
    assert_eq!(host.run("python", code).await, "[]\n");
    assert!(!host.app.workspace("demo").join(".packages").exists());
    host.ends().await;
}

#[tokio::test]
async fn npm_packages_can_be_taken_back() {
    let host = Host::new().await;
    let messages = host
        .messages(
            "typescript",
            &[
                (json!(["tinya", "@tiny/scoped"]), json!([])),
                (json!([]), json!(["tinyb"])),
                (json!(["tinyb@2"]), json!(["tinya"])),
            ],
        )
        .await;
    insta::assert_snapshot!(messages, @r#"
    null "Installed tinya 1.0.0, @tiny/scoped 0.1.0, tinyb 1.2.0"
    "package_not_installed" "remove: tinyb cannot be removed: what was asked for in this conversation is tinya, @tiny/scoped, and what came along with it goes when nothing needs it"
    null "Installed tinyb 2.0.0. Removed tinya"
    "#);
    host.change("python", json!(["tinyone"]), json!([])).await;
    let packages = host.app.workspace("demo").join(".packages");
    let there = || {
        let there = fs::read_dir(packages.join("typescript/node_modules")).unwrap();
        let mut names: Vec<_> = there.map(|one| one.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(there(), ["@tiny", "tinyb"]);
    host.change("typescript", json!([]), json!(["@tiny/scoped", "tinyb"]))
        .await;
    // What there is of the other language stays.
    assert!(!packages.join("typescript").exists());
    assert!(packages.join("python/tinyone").exists());
    host.ends().await;
}

#[tokio::test]
async fn of_two_with_the_same_files_the_newer_wish_stays() {
    let host = Host::new().await;
    let messages = host
        .messages(
            "python",
            &[
                (json!(["tinycv", "tinyone"]), json!([])),
                (json!(["tinycv-headless"]), json!([])),
                (json!(["tinyother"]), json!([])),
                (json!(["tinyviewer"]), json!([])),
                (json!(["tinycv", "tinycv-headless"]), json!([])),
                (json!([]), json!(["tinycv-headless"])),
                (json!(["tinyserver"]), json!([])),
            ],
        )
        .await;
    insta::assert_snapshot!(messages, @r#"
    null "Installed tinycv 1.0, tinyone 2.0, tiny-dep 1.5"
    null "Installed tinycv-headless 1.0. tinycv was removed: it has the same files as tinycv-headless (tinycv2)"
    null "Installed tinyother 1.0"
    null "Installed tinyviewer 1.0. tinycv was left out: it has the same files as tinycv-headless (tinycv2)"
    "package_incompatible" "incompatible: tinycv-headless has the same files as tinycv (tinycv2): ask for one of them"
    null "Installed tinycv 1.0. Removed tinycv-headless"
    null "Installed tinyserver 1.0, tinycv-headless 1.0. tinycv was left out: it has the same files as tinycv-headless (tinycv2)"
    "#);
    let code = "import tinycv2, tinyone, tinyviewer, tinyserver; print(tinycv2.VALUE)";
    assert_eq!(host.run("python", code).await, "tinycv_headless\n");
    host.ends().await;
}

#[tokio::test]
async fn an_import_that_fails_names_its_package() {
    let host = Host::new().await;
    host.change("python", json!(["tinyunloadable"]), json!([]))
        .await;
    for stateful in [false, true] {
        let arguments = json!({
            "conversationId": "demo", "language": "python", "code": "import tinyunload", "stateful": stateful,
        });
        let outcome = host.app.call("run_code", arguments).await;
        let told = outcome["stderr"].as_str().unwrap();
        let note = "Installed with install_packages: tinyunload is from tinyunloadable 1.0";
        assert_eq!(told.trim_end().lines().last(), Some(note), "{outcome}");
        // Nothing of ours is in the traceback.
        assert!(!told.contains("_sandbox"), "{told}");
        assert!(!told.contains("importlib"), "{told}");
    }
    host.ends().await;
}
