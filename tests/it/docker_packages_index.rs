//! Packages from an index that has an address in place of a name, over the filtered network. The index is the test's own, in a namespace that programs reach
//! as if it were on the internet.

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256, Sha512};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::docker_network::{
    NAME, PRIVATE, PUBLIC, RULES, WEB, World, checked, in_the_world, install_rules, tcp,
};
use crate::docker_packages::{install_for, make_packages};
use crate::support::TestApp;

/// The user that may ask the npm registry.
const NPM_USER: &str = "reader:secret";

/// An index of Python packages and a registry of npm's, over one directory.
#[derive(Clone)]
struct Index {
    files: PathBuf,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Index {
    /// Serves forever, where the programs' network leads.
    async fn serve(self) {
        let listener = in_the_world(|| tcp(WEB));
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let router = Router::new().fallback(answer).with_state(self);
        axum::serve(listener, router).await.unwrap();
    }

    /// The packages that were downloaded since the last time.
    fn downloads(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock());
        let files = asked
            .into_iter()
            .filter_map(|path| Some(path.strip_prefix("/files/")?.to_owned()));
        let mut files: Vec<_> = files.filter(|file| !file.ends_with(".metadata")).collect();
        files.sort();
        files
    }
}

async fn answer(State(index): State<Index>, request: Request) -> Response {
    let path = request.uri().path().replace("%2f", "/");
    index.asked.lock().push(path.clone());
    if path.contains("unwell") {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let of_npm = !path.starts_with("/simple/") && !path.contains(".whl");
    let word = request.headers().get("authorization");
    if of_npm && word.is_none_or(|word| *word != format!("Basic {}", STANDARD.encode(NPM_USER))) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let found = if let Some(name) = path.strip_prefix("/files/") {
        fs::read(index.files.join(name)).ok().map(Body::from)
    } else if let Some(name) = path.strip_prefix("/simple/") {
        simple(&index.files, name.trim_end_matches('/')).map(Body::from)
    } else {
        registry(
            &index.files,
            path.trim_start_matches('/'),
            &format!("http://{PUBLIC}"),
        )
        .map(Body::from)
    };
    let is_npm = !path.starts_with("/simple") && !path.starts_with("/files");
    let kind = if is_npm {
        "application/json"
    } else {
        "text/html"
    };
    match found {
        Some(body) => ([("content-type", kind)], body).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A page of PEP 503, which says that a wheel's metadata can be read beside it (PEP 658).
fn simple(files: &Path, name: &str) -> Option<String> {
    let prefix = format!("{}-", name.replace('-', "_"));
    let links: Vec<_> = named(files, &prefix, "whl")
        .map(|file| {
            let hash = hex::encode(Sha256::digest(fs::read(files.join(&file)).unwrap()));
            format!(
                "<a href=\"/files/{file}#sha256={hash}\" data-core-metadata=\"true\">{file}</a>"
            )
        })
        .collect();
    (!links.is_empty()).then(|| links.join("\n"))
}

/// What a registry says about a package.
fn registry(files: &Path, name: &str, server: &str) -> Option<String> {
    let prefix = format!("{}-", name.replace('@', "").replace('/', "-"));
    let mut versions = serde_json::Map::new();
    for file in named(files, &prefix, "tgz") {
        let version = file[prefix.len()..].trim_end_matches(".tgz").to_owned();
        let (dependencies, peers) = match (name, version.as_str()) {
            ("tinya", _) => (json!({ "tinyb": "^1" }), json!({})),
            ("tinyfile", _) => (json!({ "tinyb": "file:/packages/cache" }), json!({})),
            ("tinylink", _) => (json!({ "tinyb": "link:/packages/cache" }), json!({})),
            ("tinygit", _) => (
                json!({ "tinyb": format!("git+{server}/tinyb.git") }),
                json!({}),
            ),
            ("tinytarball", _) => (
                json!({ "tinyb": format!("{server}/files/tinyb-1.2.0.tgz") }),
                json!({}),
            ),
            ("tinypeer", "1.0.0") => (json!({}), json!({ "tinyb": "^1", "nosuch": "*" })),
            ("tinypeer", _) => (json!({}), json!({ "@tiny/evil": "*" })),
            _ => (json!({}), json!({})),
        };
        let mut dist = json!({ "tarball": format!("{server}/files/{file}") });
        // Some have none, as packages older than this hash.
        if !name.starts_with('@') {
            dist["integrity"] = integrity(&fs::read(files.join(&file)).unwrap()).into();
        }
        let about = json!({
            "name": name,
            "version": version,
            "dependencies": dependencies,
            "peerDependencies": peers,
            "peerDependenciesMeta": { "nosuch": { "optional": true } },
            "hasInstallScript": true,
            "dist": dist,
        });
        versions.insert(version, about);
    }
    let latest = versions.keys().max()?.clone();
    let about = json!({ "name": name, "dist-tags": { "latest": latest }, "versions": versions });
    Some(about.to_string())
}

fn integrity(content: &[u8]) -> String {
    format!("sha512-{}", STANDARD.encode(Sha512::digest(content)))
}

/// The files whose names begin and end like this.
fn named(files: &Path, prefix: &str, extension: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(files).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(move |name| {
        let is_kind = Path::new(name)
            .extension()
            .is_some_and(|end| end == extension);
        name.starts_with(prefix) && is_kind
    })
}

pub(crate) async fn run(app: &TestApp, conversation: &str, language: &str, code: &str) -> Value {
    let arguments = json!({ "conversationId": conversation, "language": language, "code": code });
    app.call("run_code", arguments).await["stdout"].clone()
}

/// One after another in a single test: each needs the machine's rules to itself, and would keep a thread waiting.
#[tokio::test]
async fn packages_come_from_indexes_of_all_kinds() {
    packages_come_from_the_configured_index_and_then_need_no_network().await;
    crate::docker_packages_proxy::packages_come_through_the_operators_proxy().await;
}

async fn packages_come_from_the_configured_index_and_then_need_no_network() {
    let _world = World::new();
    install_rules();
    let (index_url, host, registry) = (
        format!("http://{PUBLIC}/simple"),
        PUBLIC.to_string(),
        format!("http://{NPM_USER}@{PUBLIC}/"),
    );
    let app = TestApp::on_docker_with(&[
        RULES,
        ("RUN_DNS", PRIVATE),
        ("PIP_INDEX_URL", &index_url),
        ("PIP_TRUSTED_HOST", &host),
        ("NPM_CONFIG_REGISTRY", &registry),
        ("PACKAGE_SIZE_LIMIT", "2m"),
        ("BLOCKED_PACKAGES", "@tiny/evil"),
    ])
    .await;
    let files = tempfile::tempdir().unwrap();
    make_packages(&app, files.path()).await;
    assert_eq!(checked(&app).await, Ok(()));
    let index = Index {
        files: files.path().to_owned(),
        asked: Arc::default(),
    };
    tokio::select! {
        () = use_index(&app, &index) => {}
        () = index.clone().serve() => unreachable!("it serves for ever"),
    }
    app.assert_nothing_is_left().await;
}

async fn use_index(app: &TestApp, index: &Index) {
    let answer = install_for(app, "first", "python", json!(["tinyone<2"])).await;
    assert_eq!(answer["success"], true, "{answer}");
    let wheels = [
        "tiny_dep-1.5-py3-none-any.whl",
        "tinyone-1.0-py3-none-any.whl",
    ];
    assert_eq!(index.downloads(), wheels);
    let code = "import tinyone, tiny_dep; print(tinyone.VALUE, tiny_dep.VALUE)";
    assert_eq!(run(app, "first", "python", code).await, "one 1.0 dep 1.5\n");
    // What is kept is not downloaded again.
    let answer = install_for(app, "second", "python", json!(["tinyone==1.0"])).await;
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(index.downloads(), [""; 0]);
    assert_eq!(
        run(app, "second", "python", code).await,
        "one 1.0 dep 1.5\n"
    );

    // What disappears while it is being used, to make room for others, is downloaded again.
    for folder in fs::read_dir(app.root().join(".packages/cache")).unwrap() {
        let file = fs::read_dir(folder.unwrap().path()).unwrap().next();
        let file = file.unwrap().unwrap().path();
        fs::remove_file(&file).unwrap();
        symlink("/nowhere", &file).unwrap();
    }
    let answer = install_for(app, "fourth", "python", json!(["tinyone==1.0"])).await;
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(index.downloads(), wheels);

    use_registry(app, index).await;
    let answer = install_for(
        app,
        "first",
        "typescript",
        json!(["tinya", "@tiny/scoped@^0"]),
    )
    .await;
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(index.downloads(), ["tiny-scoped-0.1.0.tgz"]);
    let code = "import a from 'tinya'; import s from '@tiny/scoped'; console.log(a, s)";
    let expected = "a 1.0.0 with b 1.2.0 scoped\n";
    assert_eq!(run(app, "first", "typescript", code).await, expected);

    // A package's peers come along, and are taken from what is kept like everything else.
    for (conversation, downloads) in [("beside", &["tinypeer-1.0.0.tgz"][..]), ("again", &[])] {
        let answer = install_for(app, conversation, "typescript", json!(["tinypeer@1"])).await;
        let told = "Installed tinypeer 1.0.0, tinyb 1.2.0";
        assert_eq!(answer["message"], told, "{answer}");
        assert_eq!(index.downloads(), downloads);
        let code = "import p from 'tinypeer'; console.log(p)";
        assert_eq!(
            run(app, conversation, "typescript", code).await,
            "peer with b 1.2.0\n"
        );
    }
    let packages = json!(["tinypeer@1", "tinyb@2"]);
    let answer = install_for(app, "other", "typescript", packages).await;
    let told = "Installed tinypeer 1.0.0, tinyb 2.0.0";
    assert_eq!(answer["message"], told, "{answer}");
    let answer = install_for(app, "third", "typescript", json!(["tinypeer@2"])).await;
    assert_eq!(answer["code"], "package_blocked", "{answer}");

    let mut answers = String::new();
    for (language, package) in [
        ("python", "nosuch"),
        ("python", "tinyone==7"),
        ("python", "tinyforeign"),
        ("python", "tinylarge"),
        ("python", "unwell"),
        ("typescript", "nosuch"),
        ("typescript", "tinyb@7"),
        ("typescript", "tinyfile"),
        ("typescript", "tinylink"),
        ("typescript", "tinygit"),
        ("typescript", "tinytarball"),
        ("typescript", "unwell"),
    ] {
        let answer = install_for(app, "third", language, json!([package])).await;
        let line = format!(
            "{language} {package} {}: {}\n",
            answer["code"], answer["message"]
        );
        answers.push_str(&line);
    }
    insta::assert_snapshot!(answers, @r#"
    python nosuch "package_not_found": "not found: there is no nosuch. Check the spelling of the name, and ask for a version that there is, or for any"
    python tinyone==7 "package_not_found": "not found: there is no tinyone==7: the versions are 1.0, 2.0. Check the spelling of the name, and ask for a version that there is, or for any"
    python tinyforeign "package_incompatible": "incompatible: tinyforeign has no wheel for Python 3.13 and this machine, nor has any other version"
    python tinylarge "package_too_large": "too large: the packages take 3146700 bytes, the limit is 2097152 (PACKAGE_SIZE_LIMIT). Ask for less, or for smaller packages"
    python unwell "package_offline": "off-line: the package index cannot be reached"
    typescript nosuch "package_not_found": "not found: GET (address) - 404 nosuch@* failed to resolve. Check the spelling of the name, and ask for a version that there is, or for any"
    typescript tinyb@7 "package_not_found": "not found: No version matching \"7\" found for specifier \"tinyb\" (but package exists) tinyb@7 failed to resolve. Check the spelling of the name, and ask for a version that there is, or for any"
    typescript tinyfile "package_incompatible": "incompatible: tinyb: needed from an address of its own, and packages come from the registry only"
    typescript tinylink "package_incompatible": "incompatible: tinyb: needed from an address of its own, and packages come from the registry only"
    typescript tinygit "package_incompatible": "incompatible: tinyb: needed from an address of its own, and packages come from the registry only"
    typescript tinytarball "package_incompatible": "incompatible: tinyb: needed from an address of its own, and packages come from the registry only"
    typescript unwell "package_offline": "off-line: the package registry answers with status 503"
    "#);
    assert!(!app.workspace("third").exists());
    assert!(!app.workspace("first").join("ran").exists());
}

const USE_BOTH: &str = "import a from 'tinya'; import b from 'tinyb'; console.log(a, b)";
const BOTH: &str = "a 1.0.0 with b 1.2.0 b 2.0.0\n";

/// Tarballs come from what is kept as long as their hash is the one that the registry gives.
async fn use_registry(app: &TestApp, index: &Index) {
    let all = ["tinya-1.0.0.tgz", "tinyb-1.2.0.tgz", "tinyb-2.0.0.tgz"];
    for (conversation, downloads) in [
        ("downloads", &all[..]),
        ("takes-what-is-kept", &[]),
        ("is-lied-to", &all[..]),
        ("takes-it-again", &[]),
    ] {
        if conversation == "is-lied-to" {
            assert_eq!(kept(app).len(), 3);
            for file in kept(app) {
                fs::copy(index.files.join("tiny-scoped-0.1.0.tgz"), file).unwrap();
            }
        }
        let packages = json!(["tinya", "tinyb@2"]);
        let answer = install_for(app, conversation, "typescript", packages).await;
        // The first package's own copy is not available to others.
        let told = "Installed tinya 1.0.0, tinyb 2.0.0";
        assert_eq!(answer["message"], told, "{answer}");
        assert_eq!(index.downloads(), downloads, "{conversation}");
        assert_eq!(run(app, conversation, "typescript", USE_BOTH).await, BOTH);
    }
    // Nor does it count as what was asked for.
    let packages = json!(["@tiny/scoped"]);
    let answer = install_for(app, "downloads", "typescript", packages).await;
    assert_eq!(answer["message"], "Installed @tiny/scoped 0.1.0");
    assert_eq!(index.downloads(), ["tiny-scoped-0.1.0.tgz"]);
    assert_eq!(run(app, "downloads", "typescript", USE_BOTH).await, BOTH);
}

/// The tarballs that are kept.
pub(crate) fn kept(app: &TestApp) -> Vec<PathBuf> {
    let entries = fs::read_dir(app.root().join(".packages/cache")).unwrap();
    let folders = entries.map(|entry| entry.unwrap().path());
    let files = folders.flat_map(|folder| {
        let names: Vec<_> = named(&folder, "", "tgz").collect();
        names.into_iter().map(move |name| folder.join(name))
    });
    files.collect()
}

/// Makes an unknown authority, `ca.pem`, and a certificate from it for the index.
const MAKE_CERTIFICATES: &str = r#"
key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out "$1"; }
key ca.key && key key.pem
openssl req -x509 -key ca.key -out ca.pem -days 2 -subj /CN=ours -addext keyUsage=critical,keyCertSign
openssl req -x509 -key key.pem -CA ca.pem -CAkey ca.key -out cert.pem -days 2 -subj /CN=index \
    -addext basicConstraints=critical,CA:FALSE -addext "subjectAltName=DNS:$NAME"
"#;

/// Serves the working directory by TLS, on the socket that it has as standard input.
const SERVE: &str = r#"
import http.server, socket, ssl
class Server(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("", 0), http.server.SimpleHTTPRequestHandler, bind_and_activate=False)
        self.socket.close()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain("../cert.pem", "../key.pem")
        self.socket = tls.wrap_socket(socket.socket(fileno=0), server_side=True)
Server().serve_forever()
"#;

/// An index by TLS, as files, with the certificate of its authority.
pub(crate) struct TlsIndex {
    directory: TempDir,
    _server: Child,
}

impl TlsIndex {
    pub(crate) async fn on(listener: TcpListener) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let made = Command::new("bash")
            .args(["-e", "-c", MAKE_CERTIFICATES])
            .env("NAME", NAME)
            .current_dir(directory.path())
            .output()
            .await
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let site = directory.path().join("site");
        fs::create_dir_all(site.join("files")).unwrap();
        let server = Command::new("python3")
            .args(["-c", SERVE])
            .current_dir(&site)
            .stdin(OwnedFd::from(listener))
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            directory,
            _server: server,
        }
    }

    pub(crate) fn authority(&self) -> String {
        self.directory.path().join("ca.pem").display().to_string()
    }

    /// Offers one package of each language, and one without a wheel.
    pub(crate) async fn fill(&self, app: &TestApp) {
        let site = self.directory.path().join("site");
        let files = site.join("files");
        make_packages(app, &files).await;
        let pages = site.join("simple/tiny-dep");
        fs::create_dir_all(&pages).unwrap();
        let page = simple(&files, "tiny-dep").unwrap();
        fs::write(pages.join("index.html"), page).unwrap();
        let pages = site.join("simple/tinycurious");
        fs::create_dir_all(&pages).unwrap();
        let page = "<a href=\"/files/tinycurious-1.0.tar.gz\">tinycurious-1.0.tar.gz</a>";
        fs::write(pages.join("index.html"), page).unwrap();
        let about = registry(&files, "tinyb", &format!("https://{NAME}")).unwrap();
        fs::write(site.join("tinyb"), about).unwrap();
    }
}
