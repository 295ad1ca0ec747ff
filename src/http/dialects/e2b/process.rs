//! The methods of `process.Process`: commands, each of which is a run, by the numbers that their clients know them by.
//!
//! A command goes on when its client goes away, which can ask for it again by its number. It ends by itself, at its time
//! limit, by a signal, or with its sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use futures::stream::unfold;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::feed::Feed;
use super::program::Command;
use super::sandboxes::Sandbox;
use super::{envelope, not_here, nothing, paths};
use crate::api::code::Code;
use crate::audit::Origin;
use crate::executor::spec::DATA_PATH;
use crate::http::HttpState;
use crate::http::dialects::bash;
use crate::http::dialects::fields::Fields;
use crate::http::rest::{ApiError, FromCaller, WholeBody};
use crate::ledger::RunHandle;
use crate::run::stage::Stage;
use crate::run::{RunRequest, TimeArgument};

/// How often clients are shown that a silent command is alive, unless they say it.
const BEAT: u64 = 30;

/// A command that is to be started.
#[derive(Debug, Deserialize)]
pub(super) struct Start {
    #[serde(default)]
    process: Command,
    #[serde(default)]
    stdin: bool,
    pty: Option<Value>,
    tag: Option<String>,
}

/// Which command is meant.
#[derive(Debug, Deserialize)]
struct Selector {
    pid: Option<u32>,
    tag: Option<String>,
}

/// A command that is asked for again.
#[derive(Debug, Deserialize)]
struct Selected {
    process: Selector,
}

/// A signal for a command.
#[derive(Debug, Deserialize)]
pub(super) struct Signal {
    process: Selector,
    #[serde(default)]
    signal: Value,
}

/// The commands of a sandbox that have not ended.
#[derive(Debug, Default)]
pub(super) struct Processes(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    last: u32,
    commands: BTreeMap<u32, Process>,
}

#[derive(Clone, Debug)]
struct Process {
    command: Command,
    tag: Option<String>,
    run: Arc<RunHandle>,
}

impl Processes {
    fn add(&self, process: Process) -> u32 {
        let mut book = self.0.lock();
        book.last += 1;
        let pid = book.last;
        book.commands.insert(pid, process);
        pid
    }

    fn remove(&self, pid: u32) {
        self.0.lock().commands.remove(&pid);
    }

    fn running(&self) -> Vec<(u32, Process)> {
        let book = self.0.lock();
        let all = book.commands.iter();
        let running = all.filter(|(_, process)| process.run.result().is_none());
        running.map(|(pid, it)| (*pid, it.clone())).collect()
    }

    fn find(&self, which: &Selector) -> Result<(u32, Arc<RunHandle>), ApiError> {
        let is_it = |pid: u32, process: &Process| match (which.pid, &which.tag) {
            (Some(wanted), _) => wanted == pid,
            (None, tag) => tag.is_some() && process.tag == *tag,
        };
        let mut running = self.running().into_iter();
        let found = running.find(|(pid, process)| is_it(*pid, process));
        let missing = || ApiError::new(Code::NotFound, "there is no such process: it has ended");
        found
            .map(|(pid, process)| (pid, process.run))
            .ok_or_else(missing)
    }
}

pub(super) async fn start(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    headers: HeaderMap,
    body: Result<WholeBody, ApiError>,
) -> Response {
    let begun = async {
        let start = envelope::only(&body?.0.bytes)?;
        begin(&state, origin, &sandbox, start, &headers).await
    };
    match begun.await {
        Ok((pid, run)) => follow(&state, run, pid, &headers),
        Err(error) => envelope::refused(&error),
    }
}

/// The same command once more, from its beginning.
pub(super) async fn connect(
    State(state): State<HttpState>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    headers: HeaderMap,
    body: Result<WholeBody, ApiError>,
) -> Response {
    let found = body.and_then(|body| {
        let selected: Selected = envelope::only(&body.0.bytes)?;
        sandbox.processes.find(&selected.process)
    });
    match found {
        Ok((pid, run)) => follow(&state, run, pid, &headers),
        Err(error) => envelope::refused(&error),
    }
}

pub(super) async fn list(Extension(sandbox): Extension<Arc<Sandbox>>) -> Json<Value> {
    let running = sandbox.processes.running().into_iter();
    let rows: Vec<_> = running
        .map(|(pid, it)| json!({ "config": it.command, "pid": pid, "tag": it.tag }))
        .collect();
    Json(json!({ "processes": rows }))
}

/// Either signal ends a command at once.
pub(super) async fn signal(
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Fields(signal): Fields<Signal>,
) -> Result<Json<Value>, ApiError> {
    if !matches!(
        signal.signal.as_str(),
        Some("SIGNAL_SIGKILL" | "SIGNAL_SIGTERM")
    ) {
        return Err(ApiError::arguments(
            "signal must be SIGNAL_SIGKILL or SIGNAL_SIGTERM",
        ));
    }
    let (_, run) = sandbox.processes.find(&signal.process)?;
    run.cancel();
    Ok(nothing())
}

/// Starts a command, and waits until it can no longer be refused.
async fn begin(
    state: &HttpState,
    origin: Origin,
    sandbox: &Arc<Sandbox>,
    start: Start,
    headers: &HeaderMap,
) -> Result<(u32, Arc<RunHandle>), ApiError> {
    if start.stdin || start.pty.is_some() {
        let message = "commands have no terminal and no input here: write the input to a file, and read it from there";
        return Err(not_here(message));
    }
    let request = request(state, sandbox, &start.process, headers);
    let run = state.0.services.ledger.start(origin, request);
    // Until its client knows how to ask for it.
    let guard = run.cancel_on_drop();
    let process = Process {
        command: start.process,
        tag: start.tag,
        run: Arc::clone(&run),
    };
    let pid = sandbox.processes.add(process);
    let (owned, ended) = (Arc::clone(sandbox), Arc::clone(&run));
    state.0.calls.spawn(async move {
        ended.ended().await;
        owned.processes.remove(pid);
    });
    let mut stages = run.progress.stage.subscribe();
    // The run owns the sender.
    let _ = stages.wait_for(Stage::may_be_answered).await;
    if let Some(Err(error)) = run.result().as_deref() {
        return Err(error.into());
    }
    guard.disarm();
    Ok((pid, run))
}

fn request(
    state: &HttpState,
    sandbox: &Sandbox,
    command: &Command,
    headers: &HeaderMap,
) -> RunRequest {
    let services = &state.0.services;
    let language = bash::language(services, sandbox.owner.tenant());
    let home = if language == bash::WORKBENCH {
        paths::HOME
    } else {
        DATA_PATH
    };
    let mut environment = BTreeMap::from([("HOME".to_owned(), home.to_owned())]);
    environment.extend(sandbox.wish.variables.clone());
    environment.extend(command.envs.clone());
    let max = services.limits.timeout_max;
    let asked = number(headers, "connect-timeout-ms").map(Duration::from_millis);
    let timeout = asked.map_or(max, |asked| asked.clamp(Duration::from_millis(1), max));
    RunRequest {
        environment,
        timeout: Some(timeout),
        time_argument: Some(TimeArgument {
            name: "timeout",
            max,
        }),
        ..RunRequest::plain(sandbox.conversation.clone(), language, command.code())
    }
}

fn follow(state: &HttpState, run: Arc<RunHandle>, pid: u32, headers: &HeaderMap) -> Response {
    let beat = number(headers, "keepalive-ping-interval").unwrap_or(BEAT);
    let feed = Feed::new(run, pid, Duration::from_secs(beat.clamp(1, 600)));
    let unanswered = state.0.calls.token();
    envelope::answer(unfold(
        (feed, unanswered),
        async |(mut feed, unanswered)| {
            let message = feed.next().await?;
            Some((message, (feed, unanswered)))
        },
    ))
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}
