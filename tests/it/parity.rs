//! A program must not be able to tell whether it runs in an interpreter that was parked for it: every program of
//! `runners/parity` is run with and without one, and everything that can be seen of it must be the same. Without one,
//! the image's own command starts, still in a reused sandbox, because that is quicker than a new one for each.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::engines::Engine;
use crate::support::{TestApp, eventually};

/// What parity programs need to be quick on a small machine, and equal in both cases.
const SETTINGS: [(&str, &str); 3] = [
    ("RUN_CPUS", "1"),
    ("MAX_CONCURRENT_RUNS", "4"),
    // Everything is compared, not only what a model sees.
    ("OUTPUT_FOR_MODEL", "4000000"),
];

/// Of three warm sandboxes two have everything loaded, and the first one loads what programs name.
#[rstest]
#[case::on_docker(Engine::Docker, "python=1")]
#[case::on_docker_and_light(Engine::Docker, "python=3")]
#[case::on_kubernetes(Engine::Kubernetes, "python=1")]
#[tokio::test]
async fn python_programs_cannot_tell(#[case] engine: Engine, #[case] pool: &str) {
    compare(engine, "python", "py", 60, pool).await;
}

/// On a cluster nothing differs by the language.
#[rstest]
#[case::on_docker(Engine::Docker)]
#[tokio::test]
async fn typescript_programs_cannot_tell(#[case] engine: Engine) {
    compare(engine, "typescript", "ts", 60, "typescript=1").await;
}

/// What can be seen of a run.
#[derive(Debug, PartialEq)]
struct Seen {
    status: Value,
    exit_code: Value,
    stdout: String,
    stderr: String,
    files: BTreeMap<String, Vec<u8>>,
}

async fn compare(engine: Engine, language: &str, extension: &str, least: usize, pool: &str) {
    let programs = programs(language, extension);
    assert!(programs.len() >= least, "only {} programs", programs.len());
    let kept = [("POOL_SIZE", pool), ("SANDBOX_REUSE", "conversation")];
    let settings = [&SETTINGS[..], &kept].concat();
    let parked = engine.server(&settings).await;
    // Without a driver, containers lack the extra memory for one.
    let view = parked.app.parts.gate.catalog.view();
    let driver_memory = view.find(language).unwrap().driver_memory;
    let memory = (parked.app.parts.limits.memory + driver_memory).to_string();
    let settings = [&settings[..], &[("RUN_MEMORY", &memory)]].concat();
    let plain = engine.server_without_drivers(&settings).await;
    let mut differences = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        let (plain, parked) = tokio::join!(
            run_again(&plain, language, program, number),
            run_again(&parked, language, program, number),
        );
        if parked != plain {
            differences.push(format!(
                "{}\nplain {plain:#?}\nparked {parked:#?}",
                program.display()
            ));
        }
    }
    plain.assert_nothing_is_left().await;
    parked.assert_nothing_is_left().await;
    assert!(
        differences.is_empty(),
        "{} programs can tell:\n{}",
        differences.len(),
        differences.join("\n\n")
    );
}

/// Runs a program in a sandbox in which another ran before it.
async fn run_again(app: &TestApp, language: &str, program: &Path, number: usize) -> Seen {
    let conversation = warm_conversation(app, language, number).await;
    let before = app.starts("own");
    let seen = run(app, language, program, &conversation).await;
    assert_eq!(app.starts("own"), before + 1, "{}", program.display());
    empty(&app.workspace(&conversation));
    seen
}

/// A conversation that has a warm sandbox: the last one, unless its program has spoilt it.
async fn warm_conversation(app: &TestApp, language: &str, number: usize) -> String {
    let kept = app.root().join(format!("{language}-conversation"));
    let again = fs::read_to_string(&kept).ok();
    if let Some(conversation) = again
        && settles(app).await
    {
        return conversation;
    }
    app.parked(language, 1).await;
    let conversation = format!("{language} {number}");
    fs::write(kept, &conversation).unwrap();
    // An upload would give it a sandbox of the language that is asked for most.
    let first = json!({ "conversationId": conversation, "language": language, "code": "" });
    assert_eq!(app.call("run_code", first).await["status"], "ok");
    assert!(settles(app).await, "the conversation keeps its sandbox");
    conversation
}

/// Whether the last run's sandbox returns to its conversation.
async fn settles(app: &TestApp) -> bool {
    let live = || app.app.parts.launcher.live_count();
    let counted = || {
        let (pooled, owned) = app.app.parts.pool.count();
        pooled + owned
    };
    eventually("sandboxes are clean or gone", || live() == counted()).await;
    app.app.parts.pool.count().1 == 1
}

async fn run(app: &TestApp, language: &str, program: &Path, conversation: &str) -> Seen {
    give_files(app, conversation).await;
    let code = fs::read_to_string(program).unwrap();
    let arguments = json!({ "conversationId": conversation, "language": language, "code": code });
    let result = app.call("run_code", arguments).await;
    // Links and paths name the conversation: that part is made equal in all that is compared.
    let key = app
        .workspace(conversation)
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let text = |field: &str| {
        result[field]
            .as_str()
            .unwrap_or_default()
            .replace(&key, "<key>")
    };
    Seen {
        status: result["status"].clone(),
        exit_code: result["exitCode"].clone(),
        stdout: text("stdout"),
        stderr: text("stderr"),
        files: files(&app.workspace(conversation)),
    }
}

/// Gives a conversation the files that programs find. Uploads have their own tests: one creates the conversation, the
/// other files are written like it.
async fn give_files(app: &TestApp, conversation: &str) {
    let first = json!({ "conversationId": conversation, "filename": "first", "content": "" });
    let uploaded = app.call("upload_file", first).await;
    assert_eq!(uploaded["success"], true, "{uploaded}");
    let root = app.workspace(conversation);
    let owner = fs::metadata(root.join("first")).unwrap();
    fs::remove_file(root.join("first")).unwrap();
    let given = |path: &Path| chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
    for (name, content) in files(&parity().join("files")) {
        let path = root.join(name);
        let folder = path.parent().unwrap();
        if !folder.exists() {
            fs::create_dir(folder).unwrap();
            given(folder);
        }
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, owner.permissions()).unwrap();
        given(&path);
    }
}

fn parity() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("runners/parity")
}

fn programs(language: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(parity().join(language))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut programs: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .collect();
    programs.sort();
    programs
}

/// All files of a workspace with their content.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_symlink() || !path.is_dir() {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.insert(name, fs::read(&path).unwrap_or_default());
            } else {
                folders.push(path);
            }
        }
    }
    found
}

/// Empties a workspace for the next program.
fn empty(root: &Path) {
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let removed = if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.unwrap();
    }
}
