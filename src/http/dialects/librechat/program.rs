//! `POST /exec`: copies the files in, runs the program, and says which files there are now and where they come from.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::io::ReaderStream;

use super::reference::{self, FileRef, Listings, Use, file_id, new_session};
use crate::api::python::PYTHON;
use crate::audit::Origin;
use crate::conversation::Conversation;
use crate::conversations::Incoming;
use crate::executor::Stream;
use crate::files::FilesError;
use crate::http::HttpState;
use crate::http::dialects::bash;
use crate::http::dialects::fields::Fields;
use crate::http::rest::{ApiError, FromCaller};
use crate::principal::Tenant;
use crate::run::RunRequest;
use crate::run::outcome::{Outcome, RunStatus};
use crate::services::Services;
use crate::workspace::Existing;

/// Most files that a program can be given.
const MAX_INPUTS: usize = 200;
/// Most files that an answer names.
const MAX_FILES: usize = 50;
const TYPESCRIPT: &str = "typescript";

/// A program and what it is to have.
#[derive(Debug, Deserialize)]
pub(super) struct Program {
    lang: String,
    code: String,
    /// What it finds as its arguments.
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    files: Vec<FileRef>,
    /// Milliseconds that it may take. More than it can have is taken for that.
    timeout: Option<u64>,
}

pub(super) async fn run(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Fields(program): Fields<Program>,
) -> Result<Json<Value>, ApiError> {
    let _unanswered = state.0.calls.token();
    let services = &state.0.services;
    let language = language(services, origin.caller.tenant(), &program.lang)?;
    let code = program.source(language);
    let session = new_session(services, &origin.caller, Use::Any)?;
    let inputs = Inputs::copied(&state, &origin, &session, program.files).await?;
    let request = RunRequest {
        timeout: time_limit(services, program.timeout),
        ..RunRequest::plain(session.clone(), language, code)
    };
    let run = services.ledger.start(origin, request);
    let _guard = run.cancel_on_drop();
    match run.ended().await.as_ref() {
        Ok(rendered) => {
            let printed = Printed::of(&rendered.outcome);
            let answer = answer(services, &session, &inputs, &rendered.outcome, printed);
            answer.await.map(Json)
        }
        Err(error) => Err(error.into()),
    }
}

/// How long a program may take whose client asks for so many milliseconds.
pub(super) fn time_limit(services: &Services, milliseconds: Option<u64>) -> Option<Duration> {
    let asked = Duration::from_millis(milliseconds?.max(1));
    Some(asked.min(services.limits.timeout_max))
}

/// The language that clients call so.
pub(super) fn language(
    services: &Services,
    tenant: &Tenant,
    name: &str,
) -> Result<&'static str, ApiError> {
    match name {
        "bash" | "sh" => Ok(bash::language(services, tenant)),
        "py" | "python" => Ok(PYTHON),
        "js" | "javascript" | "node" | "nodejs" | "ts" | "typescript" | "bun" | "bun-js" => {
            Ok(TYPESCRIPT)
        }
        other => {
            let other: String = other.chars().take(64).collect();
            let message = format!("Unsupported language: {other}");
            Err(ApiError::arguments(message))
        }
    }
}

impl Program {
    /// What is run, which finds its arguments where programs in its language look for them.
    fn source(&self, language: &str) -> String {
        let code = &self.code;
        match (language, &*self.args) {
            (_, []) => code.clone(),
            (PYTHON, args) => format!(
                "import sys; sys.argv[1:] = {}; del sys\n{code}",
                json!(args)
            ),
            (bash::WORKBENCH | bash::SHELL, args) => {
                let args: Vec<_> = args.iter().map(|arg| bash::quoted(arg)).collect();
                format!("set -- {}\n{code}", args.join(" "))
            }
            (_, args) => format!(
                "process.argv.splice(2, Infinity, ...{});\n{code}",
                json!(args)
            ),
        }
    }
}

/// The files that a program was given.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// Where each comes from, by its name.
    copied: BTreeMap<String, FileRef>,
    /// Those that are not there any more.
    missing: Vec<String>,
}

impl Inputs {
    /// Copies the files into a session. Of two with one name, the last counts. One that is gone does not keep a program
    /// from running: it may do without, and so would every later one be kept.
    ///
    /// # Errors
    /// There are too many, or there is trouble with the storage.
    pub(super) async fn copied(
        state: &HttpState,
        origin: &Origin,
        session: &Conversation,
        files: Vec<FileRef>,
    ) -> Result<Self, ApiError> {
        if files.len() > MAX_INPUTS {
            let message = format!("files has more than {MAX_INPUTS}: name fewer");
            return Err(ApiError::arguments(message));
        }
        let services = &state.0.services;
        let by_name: BTreeMap<_, _> = files
            .into_iter()
            .map(|file| (file.name.clone(), file))
            .collect();
        let (mut inputs, mut listings) = (Self::default(), Listings::default());
        for (name, file) in by_name {
            let theirs = reference::session(services, &origin.caller, &file.storage_session_id);
            let opened = match theirs {
                Ok(theirs) => listings.open(services, &theirs, &file.id).await,
                Err(_) => Err(FilesError::NotFound(name.clone())),
            };
            let (_, open) = match opened {
                Ok(opened) => opened,
                Err(FilesError::NotFound(_)) => {
                    inputs.missing.push(name);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let body = ReaderStream::new(tokio::fs::File::from_std(open.file));
            let incoming = Incoming {
                declared: Some(open.size),
                patience: state.0.config.patience.body,
                body: futures::TryStreamExt::map_err(body, FilesError::Read),
            };
            let conversations = &services.conversations;
            let stored = conversations
                .receive(origin, session, &name, Existing::Replace, incoming)
                .await?;
            inputs.copied.insert(stored.file.name, file);
        }
        Ok(inputs)
    }

    /// Which of them are not there, for standard error.
    pub(super) fn notes(&self) -> String {
        let missing = self.missing.iter();
        missing
            .map(|name| note(&format!("{name} is not there any more: upload it again")))
            .collect()
    }
}

/// What a program has printed.
#[derive(Clone, Debug, Default)]
pub(super) struct Printed {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Printed {
    fn of(outcome: &Outcome) -> Self {
        let [stdout, stderr] =
            [Stream::Stdout, Stream::Stderr].map(|stream| outcome.captured.text(stream));
        Self { stdout, stderr }
    }

    pub(super) fn push(&mut self, stream: Stream, text: &str) {
        match stream {
            Stream::Stdout => self.stdout.push_str(text),
            Stream::Stderr => self.stderr.push_str(text),
        }
    }
}

/// What a client is told of a program that has ended.
pub(super) async fn answer(
    services: &Services,
    session: &Conversation,
    inputs: &Inputs,
    outcome: &Outcome,
    mut printed: Printed,
) -> Result<Value, ApiError> {
    let changed: BTreeSet<_> = outcome
        .files
        .iter()
        .filter(|file| file.new)
        .map(|file| &*file.name)
        .collect();
    let there = services.files.list(session).await?.files;
    let is_hidden = |name: &str| name.split('/').any(|part| part.starts_with('.'));
    let shown = there.iter().filter(|file| !is_hidden(&file.name));
    let files = shown.take(MAX_FILES).map(|file| {
        let new = json!({ "id": file_id(session, &file.name), "name": file.name, "storage_session_id": session.id() });
        match inputs.copied.get(&file.name) {
            None => new,
            Some(from) if changed.contains(&*file.name) && !from.is_read_only() => with(new, "modified_from", &json!({
                "id": from.id, "storage_session_id": from.storage_session_id
            })),
            Some(from) => json!({
                "id": from.id, "name": file.name, "storage_session_id": from.storage_session_id, "inherited": true
            }),
        }
    });
    let files: Vec<_> = files.collect();
    let deleted = inputs
        .copied
        .keys()
        .filter(|name| !there.iter().any(|file| file.name == **name));
    let deleted: Vec<_> = deleted.collect();
    let ended = Ended::of(outcome);
    printed.stderr.push_str(&inputs.notes());
    printed.stderr.extend(ended.message.as_deref().map(note));
    Ok(json!({
        "session_id": session.id(),
        "stdout": printed.stdout,
        "stderr": printed.stderr,
        "files": files,
        "deleted_files": deleted,
        "code": outcome.exit_code,
        "signal": ended.signal,
        "message": ended.message,
        "status": ended.status,
        "wall_time": crate::run::outcome::milliseconds(outcome.wall),
    }))
}

fn with(mut object: Value, name: &str, value: &Value) -> Value {
    object[name] = value.clone();
    object
}

/// What the reader of standard error would not learn otherwise: clients show nothing else.
pub(super) fn note(text: &str) -> String {
    format!("\n[sandbox] {text}\n")
}

/// How a program ended, in the words of these clients.
pub(super) struct Ended {
    pub(super) message: Option<String>,
    status: Option<&'static str>,
    signal: Option<&'static str>,
}

impl Ended {
    pub(super) fn of(outcome: &Outcome) -> Self {
        let stopped = |message: &str, status| Self {
            message: Some(message.to_owned()),
            status: Some(status),
            signal: Some("SIGKILL"),
        };
        match outcome.status {
            RunStatus::Timeout => stopped("Time limit exceeded", "TO"),
            RunStatus::OutOfMemory => stopped("Out of memory", "SG"),
            RunStatus::OutputLimit => stopped("stdout length exceeded", "OL"),
            RunStatus::Ok | RunStatus::Error => Self {
                message: None,
                status: None,
                signal: outcome.exit_code.and_then(signal),
            },
            _ => Self {
                message: outcome.hint.text(),
                status: Some("XX"),
                signal: None,
            },
        }
    }
}

/// The signal that an exit code tells of, as shells have it.
fn signal(exit_code: i32) -> Option<&'static str> {
    Some(match exit_code.checked_sub(128)? {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return None,
    })
}
