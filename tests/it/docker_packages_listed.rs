//! Packages from containers without a network, by way of the hosts that they come from: no firewall, no `ALLOW_NETWORK`,
//! no list for programs. The index is the tests' own, on this machine's loopback.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Redirect;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::docker_network::NAME;
use crate::docker_packages::install_for;
use crate::docker_packages_index::{TlsIndex, kept, run};
use crate::support::weak::WeakExecutor;
use crate::support::{TestApp, eventually};

const PRIVATE: (&str, &str) = ("NETWORK_PRIVATE", "127.0.0.0/8");
/// What the index has for each language.
const PACKAGES: [(&str, &str); 2] = [("python", "tiny-dep"), ("typescript", "tinyb")];

/// An index by TLS, and what a server has to know of it.
struct Listed {
    index: TlsIndex,
    at: SocketAddr,
}

impl Listed {
    async fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let index = TlsIndex::on(listener).await;
        Self { index, at }
    }

    /// A server that trusts the index, with more settings.
    async fn server(&self, more: &[(&str, &str)]) -> TestApp {
        let authority = self.index.authority();
        let trusts = [("PACKAGE_CA_BUNDLE", &*authority)];
        self.distrusting_server(&[&trusts, more].concat()).await
    }

    async fn distrusting_server(&self, more: &[(&str, &str)]) -> TestApp {
        let hosts = format!("{NAME}={}", self.at);
        let (index, registry) = (format!("https://{NAME}/simple"), format!("https://{NAME}/"));
        let mut settings = vec![
            PRIVATE,
            ("NETWORK_HOSTS", &hosts),
            ("PIP_INDEX_URL", &index),
            ("NPM_CONFIG_REGISTRY", &registry),
        ];
        for (name, value) in more {
            settings.retain(|(set, _)| set != name);
            settings.push((name, value));
        }
        let app = TestApp::on_docker_with(&settings).await;
        self.index.fill(&app).await;
        app
    }
}

async fn install(app: &TestApp, language: &str, package: &str) -> Value {
    install_for(app, "demo", language, json!([package])).await
}

async fn refusal(app: &TestApp, language: &str, package: &str) -> String {
    let answer = install(app, language, package).await;
    format!("{}: {}", answer["code"], answer["message"])
}

async fn ends(app: TestApp) {
    app.assert_nothing_is_left().await;
    eventually("no hatch is left", || {
        let private = fs::read_dir(app.root().join(".tmp")).unwrap();
        let mut names = private.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        !names.any(|name| name.starts_with("hatch"))
    })
    .await;
}

#[tokio::test]
async fn packages_need_no_network_but_the_hosts_that_they_come_from() {
    let listed = Listed::new().await;
    let app = listed.server(&[]).await;
    for (language, package) in PACKAGES {
        let answer = install(&app, language, package).await;
        assert_eq!(answer["success"], true, "{answer}");
    }
    assert_eq!(kept(&app).len(), 1);
    let code = "import tiny_dep; print(tiny_dep.VALUE)";
    assert_eq!(run(&app, "demo", "python", code).await, "dep 1.5\n");
    let code = "import b from 'tinyb'; console.log(b)";
    assert_eq!(run(&app, "demo", "typescript", code).await, "b 2.0.0\n");
    // Programs have nothing of it.
    let code = "import os; print(os.path.exists('/.sandbox-hatch'))";
    assert_eq!(run(&app, "demo", "python", code).await, "False\n");
    let outcome = app
        .call(
            "run_code",
            json!({ "language": "shell", "code": "echo", "network": true }),
        )
        .await;
    assert_eq!(outcome["code"], "network_refused", "{outcome}");
    ends(app).await;
}

#[tokio::test]
async fn an_index_on_docker_with_certificates_of_its_own_is_trusted_when_the_operator_says_so() {
    let listed = Listed::new().await;
    let app = listed.distrusting_server(&[]).await;
    for (language, package) in PACKAGES {
        let refusal = refusal(&app, language, package).await;
        assert!(refusal.contains("package_offline"), "{refusal}");
        assert!(refusal.contains("PACKAGE_CA_BUNDLE"), "{refusal}");
    }
    ends(app).await;
}

/// What pip and Bun say of themselves is what a list gets whose settings name no index.
#[tokio::test]
async fn clients_on_docker_say_where_they_take_packages_from() {
    let app = TestApp::on_docker_with(&[(
        "NETWORK_ALLOW",
        "@python-packages,@npm-packages,api.example.org",
    )])
    .await;
    let code = "import os\nprint(os.path.exists('/.sandbox-hatch'))";
    let arguments = json!({ "language": "python", "code": code, "network": true });
    let outcome = app.call("run_code", arguments).await;
    assert_eq!(outcome["stdout"], "True\n", "{outcome}");
    // One of npm's, and two of Python's: which is nothing that is known here.
    let arguments = json!({ "language": "shell", "code": "echo", "hosts": ["nowhere.example"] });
    let outcome = app.call("run_code", arguments).await;
    let message = outcome["message"].as_str().unwrap();
    let (_, listed) = message.split_once("may reach: ").unwrap();
    let (listed, _) = listed.split_once(": name").unwrap();
    assert_eq!(listed.split(", ").count(), 4, "{message}");
    ends(app).await;
}

/// Sends everybody somewhere else.
async fn redirecting(to: String, serving: &mut JoinSet<()>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let at = listener.local_addr().unwrap();
    let answer = |State(to): State<String>, request: Request| async move {
        Redirect::temporary(&format!("{to}{}", request.uri().path()))
    };
    let router = Router::new().fallback(answer).with_state(to);
    serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
    at
}

#[tokio::test]
async fn a_host_that_packages_do_not_come_from_is_not_reached_and_named() {
    let (listed, mut serving) = (Listed::new().await, JoinSet::new());
    let at = redirecting(format!("https://{NAME}"), &mut serving).await;
    let hosts = format!("index.example={at},{NAME}={}", listed.at);
    let settings = [
        ("NETWORK_HOSTS", &*hosts),
        ("PIP_INDEX_URL", "http://index.example:8080/simple"),
        ("PIP_TRUSTED_HOST", "index.example"),
        ("NPM_CONFIG_REGISTRY", "http://index.example:8080/"),
    ];
    let app = listed.server(&settings).await;
    let mut refusals = Vec::new();
    for (language, package) in PACKAGES {
        refusals.push(refusal(&app, language, package).await);
    }
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    "package_offline": "off-line: the package index cannot be reached: somewhere.example is not among the hosts of packages, to which the operator can add it (PACKAGE_HOSTS)"
    "package_offline": "off-line: the package registry cannot be reached: somewhere.example is not among the hosts of packages, to which the operator can add it (PACKAGE_HOSTS)"
    "#);
    ends(app).await;
    let app = listed
        .server(&[&settings[..], &[("PACKAGE_HOSTS", NAME)]].concat())
        .await;
    for (language, package) in PACKAGES {
        let answer = install(&app, language, package).await;
        assert_eq!(answer["success"], true, "{answer}");
    }
    ends(app).await;
}

#[tokio::test]
async fn why_a_host_of_packages_is_not_reached_is_said() {
    let listed = Listed::new().await;
    let mut refusals = Vec::new();
    let nobody = format!("{NAME}=127.0.0.1:1");
    let settings: [&[(&str, &str)]; 3] = [
        &[("NETWORK_PRIVATE", "10.0.0.0/8")],
        &[("NETWORK_HOSTS", &nobody)],
        &[("NETWORK_HOSTS", "other.example=127.0.0.1:1")],
    ];
    for settings in settings {
        let app = listed.server(settings).await;
        for (language, package) in PACKAGES {
            refusals.push(refusal(&app, language, package).await);
        }
        ends(app).await;
    }
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    "package_offline": "off-line: the package index cannot be reached: somewhere.example has a private address, which the operator can allow to hosts that settings name (NETWORK_PRIVATE, PACKAGE_HOSTS)"
    "package_offline": "off-line: the package registry cannot be reached: somewhere.example has a private address, which the operator can allow to hosts that settings name (NETWORK_PRIVATE, PACKAGE_HOSTS)"
    "package_offline": "off-line: the package index cannot be reached: somewhere.example does not answer"
    "package_offline": "off-line: the package registry cannot be reached: somewhere.example does not answer"
    "package_offline": "off-line: the package index cannot be reached: the name somewhere.example leads nowhere"
    "package_offline": "off-line: the package registry cannot be reached: the name somewhere.example leads nowhere"
    "#);
}

/// Where no socket comes out of containers, installs have the network that they always had, if there is one.
#[tokio::test]
async fn an_engine_without_hatches_is_as_before_on_docker() {
    let listed = Listed::new().await;
    let authority = listed.index.authority();
    let index = format!("https://{NAME}/simple");
    let settings = [
        PRIVATE,
        ("PACKAGE_CA_BUNDLE", &*authority),
        ("PIP_INDEX_URL", &index),
    ];
    let executor = WeakExecutor::new(|body| {
        let mounts = body.host_config.as_mut().unwrap().mounts.as_mut().unwrap();
        mounts.retain(|mount| mount.target.as_deref() != Some("/.sandbox-hatch"));
    });
    let app = TestApp::build(&settings, Arc::new(executor.await)).await;
    let refusal = refusal(&app, "python", "tiny-dep").await;
    assert!(refusal.contains("package_offline"), "{refusal}");
    assert!(refusal.contains("scripts/firewall.sh install"), "{refusal}");
    let answer = install(&app, "python", "numpy").await;
    assert_eq!(answer["success"], true, "{answer}");
    ends(app).await;
}

#[tokio::test]
async fn an_operator_on_docker_can_have_nothing_fetched() {
    let listed = Listed::new().await;
    let app = listed.server(&[("PACKAGE_HOSTS", "none")]).await;
    insta::assert_snapshot!(refusal(&app, "python", "tiny-dep").await, @r#""package_offline": "off-line: what was asked for is not part of the runner (there is no tiny-dep), and it cannot be downloaded: nothing is fetched here, which the server's operator can change (PACKAGE_HOSTS)""#);
    let answer = install(&app, "python", "numpy").await;
    assert_eq!(answer["success"], true, "{answer}");
    ends(app).await;
}

#[tokio::test]
async fn a_build_reaches_the_index_alone() {
    let listed = Listed::new().await;
    let app = listed.server(&[("ALLOW_SOURCE_BUILDS", "1")]).await;
    let answer = install(&app, "python", "tinycurious").await;
    assert_eq!(answer["success"], true, "{answer}");
    let code = "import tinycurious; print(tinycurious.VALUE)";
    let tried = "reached gaierror OSError OSError ConnectionRefusedError\n";
    assert_eq!(run(&app, "demo", "python", code).await, tried);
    ends(app).await;
}

/// Programs may reach what packages come from if a list says so.
#[tokio::test]
async fn programs_on_docker_reach_the_index_of_the_settings_by_its_preset() {
    let listed = Listed::new().await;
    let app = listed
        .server(&[("NETWORK_ALLOW", "@python-packages")])
        .await;
    let ca = fs::read(listed.index.authority()).unwrap();
    app.upload("ca.pem", &ca).await;
    let code = format!(
        "import glob, os, subprocess, sys\n\
         os.environ['REQUESTS_CA_BUNDLE'] = '/data/ca.pem'\n\
         pip = [sys.executable, '-m', 'pip', 'download', '--quiet', '--no-cache-dir']\n\
         subprocess.run([*pip, '--index-url', 'https://{NAME}/simple', 'tiny-dep'], check=True)\n\
         print(glob.glob('*.whl'))"
    );
    let arguments =
        json!({ "conversationId": "demo", "language": "python", "code": code, "network": true });
    let outcome = app.call("run_code", arguments).await;
    assert_eq!(
        outcome["stdout"], "['tiny_dep-1.5-py3-none-any.whl']\n",
        "{outcome}"
    );
    let host = &outcome["network"]["hosts"][0];
    assert_eq!(
        (&host["host"], &host["verdict"]),
        (&json!(NAME), &json!("allowed"))
    );
    // An install is as before, with hosts of its own.
    let answer = install(&app, "typescript", "tinyb").await;
    assert_eq!(answer["success"], true, "{answer}");
    ends(app).await;
}
