//! A program that calls tools, from one turn to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::DropGuard;

use super::Request;
use super::stub::Stub;
use crate::api::error::CallError;
use crate::audit::Origin;
use crate::conversation::Conversation;
use crate::conversations::Incoming;
use crate::files::FilesError;
use crate::http::HttpState;
use crate::http::dialects::librechat::program::{self, Ended, Inputs, Printed};
use crate::http::dialects::librechat::reference::{Use, new_session};
use crate::http::rest::ApiError;
use crate::ledger::{CellEvent, CellEvents, RunHandle};
use crate::run::RunRequest;
use crate::run::outcome::{Rendered, RunStatus};
use crate::run::stage::Stage;
use crate::sandbox::RecordMark;
use crate::workspace::Existing;

/// Calls that come within this time of the first are told together with it.
const TOGETHER: Duration = Duration::from_millis(25);
/// Bytes of arguments after which no more calls are told at once: others follow in the next turn.
const ENOUGH_BYTES: usize = 1 << 20;
/// Most calls of a program.
const MAX_CALLS_IN_ALL: u32 = 2000;
/// Longest arguments of one call in bytes.
const MAX_INPUT: usize = 1 << 20;
/// What files of calls are called, and how long that is at most.
const CALL: &str = ".tool-";
const MAX_NAME: usize = 64;
/// What clients pass on to their model: why a program was ended.
pub(super) const FAILED: &str = "Execution failed or timed out";
const TOO_LATE: &str = "Time limit exceeded";
const TOO_MUCH: &str = "stdout length exceeded";

/// What a client says that one of its tools has answered.
#[derive(Debug, Deserialize)]
pub(super) struct ToolResult {
    call_id: String,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    is_error: bool,
    error_message: Option<String>,
}

impl ToolResult {
    /// The result, or what was wrong.
    fn answer(self) -> Result<Value, String> {
        if !self.is_error {
            return Ok(self.result);
        }
        let message = self.error_message.filter(|message| !message.is_empty());
        Err(message.unwrap_or_else(|| "the tool has failed".to_owned()))
    }
}

/// A call that waits for its result. Its arguments are as the program has written them: an object of JSON.
#[derive(Debug, Serialize)]
pub(super) struct Call {
    id: String,
    name: String,
    input: Box<RawValue>,
}

/// A program whose tools are its client's. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Caller {
    session: Conversation,
    inputs: Inputs,
    tools: BTreeSet<String>,
    run: Arc<RunHandle>,
    events: CellEvents,
    printed: Printed,
    /// The files that answers are waited for beside, by the names that the client knows the calls by.
    calls: BTreeMap<String, String>,
    /// How many calls there were, those among them that no client was told of.
    made: u32,
    /// How long each turn may take.
    turn: Duration,
    _guard: DropGuard,
}

/// How a turn ended.
pub(super) enum Turn {
    /// These calls wait for their results.
    Calls(Vec<Call>),
    /// The program is over.
    Ended(Value),
}

impl Caller {
    /// Starts a program.
    pub(super) async fn start(
        state: &HttpState,
        origin: &Origin,
        request: Request,
    ) -> Result<Self, ApiError> {
        let services = &state.0.services;
        let tenant = origin.caller.tenant();
        let name = request.lang.as_deref().unwrap_or("py");
        let language = program::language(services, tenant, name)?;
        let stub = Stub::of(language).map_err(ApiError)?;
        let code = request
            .code
            .ok_or_else(|| ApiError::arguments("code is missing: give the program"))?;
        let tools: BTreeSet<_> = request.tools.into_iter().map(|tool| tool.name).collect();
        let mark = RecordMark::random();
        let names = tools.iter().map(String::as_str);
        let code = stub.program(mark, names, &code).map_err(ApiError)?;
        let session = new_session(services, &origin.caller, Use::Any)?;
        let inputs = Inputs::copied(state, origin, &session, request.files).await?;
        let limits = &services.limits;
        let turn = program::time_limit(services, request.timeout).unwrap_or(limits.timeout);
        let run = RunRequest {
            timeout: Some(limits.timeout_max),
            ..RunRequest::plain(session.clone(), language, code)
        };
        let run = services.ledger.start(origin.clone(), run);
        let caller = Self {
            session,
            inputs,
            tools,
            events: CellEvents::of(Arc::clone(&run), mark),
            printed: Printed::default(),
            calls: BTreeMap::new(),
            made: 0,
            turn,
            _guard: run.cancel_on_drop(),
            run,
        };
        // Its time begins with the program, and not with the wait for a place.
        let mut stages = caller.run.progress.stage.subscribe();
        let has_begun = |stage: &Stage| matches!(stage, Stage::Running { .. } | Stage::Ended(_));
        let _ = stages.wait_for(has_begun).await;
        Ok(caller)
    }

    /// Whether these are results for all calls that wait, and for nothing else.
    pub(super) fn check(&self, results: &[ToolResult]) -> Result<(), CallError> {
        let given: BTreeSet<_> = results.iter().map(|result| &result.call_id).collect();
        let waiting: BTreeSet<_> = self.calls.keys().collect();
        if given == waiting && results.len() == given.len() {
            return Ok(());
        }
        let waiting: Vec<_> = waiting.into_iter().map(String::as_str).collect();
        let message = format!(
            "tool_results must have one result for each call that waits: {}",
            waiting.join(", ")
        );
        Err(CallError::invalid(&message))
    }

    /// Gives the program what its tools have answered.
    ///
    /// # Errors
    /// What the client is told of a program that could not be given it, and so is over.
    pub(super) async fn give(
        &mut self,
        state: &HttpState,
        origin: &Origin,
        results: Vec<ToolResult>,
    ) -> Result<(), Value> {
        for result in results {
            let Some(file) = self.calls.remove(&result.call_id) else {
                continue;
            };
            let given = self.answer(state, origin, &file, result.answer()).await;
            given.map_err(|error| self.failed(FAILED, &error.to_string()))?;
        }
        Ok(())
    }

    /// Leaves an answer where the program waits for it. One that cannot be kept is told of as an error of the tool.
    async fn answer(
        &self,
        state: &HttpState,
        origin: &Origin,
        file: &str,
        answer: Result<Value, String>,
    ) -> Result<(), FilesError> {
        let error = |message: &str| format!("error\n{message}");
        let text = answer.map_or_else(|message| error(&message), |value| format!("ok\n{value}"));
        match self.leave(state, origin, file, text).await {
            Ok(()) => Ok(()),
            Err(reason) => {
                let text = error(&reason.to_string());
                self.leave(state, origin, file, text).await
            }
        }
    }

    async fn leave(
        &self,
        state: &HttpState,
        origin: &Origin,
        file: &str,
        text: String,
    ) -> Result<(), FilesError> {
        let incoming = Incoming {
            declared: u64::try_from(text.len()).ok(),
            patience: state.0.config.patience.body,
            body: stream::iter([Ok(Bytes::from(text))]),
        };
        let name = format!("{file}.answer");
        let conversations = &state.0.services.conversations;
        conversations
            .receive(origin, &self.session, &name, Existing::Replace, incoming)
            .await?;
        Ok(())
    }

    /// Waits for the next calls of the program, or for its end.
    ///
    /// # Errors
    /// It could not run.
    pub(super) async fn advance(
        &mut self,
        state: &HttpState,
        origin: &Origin,
    ) -> Result<Turn, ApiError> {
        let mut until = Instant::now() + self.turn;
        let (mut calls, mut bytes) = (Vec::new(), 0);
        while bytes < ENOUGH_BYTES && Instant::now() < until {
            let event = match timeout_at(until, self.events.next()).await {
                Ok(Some(event)) => event,
                // Nobody waits for what it has called.
                Ok(None) => return self.ended(state).await.map(Turn::Ended),
                Err(_) => break,
            };
            match event {
                CellEvent::Printed(stream, text) => self.printed.push(stream, &text),
                CellEvent::Called(file) => match self.called(state, origin, file).await {
                    Ok(None) => {}
                    Ok(Some(call)) => {
                        if calls.is_empty() {
                            until = until.min(Instant::now() + TOGETHER);
                        }
                        bytes += call.input.get().len();
                        calls.push(call);
                    }
                    Err(reason) => return Ok(Turn::Ended(self.failed(FAILED, &reason))),
                },
                _ => {}
            }
        }
        if calls.is_empty() {
            return Ok(Turn::Ended(self.too_late()));
        }
        Ok(Turn::Calls(calls))
    }

    /// What the client is told of a call. One that it cannot be told of is answered here.
    ///
    /// # Errors
    /// Why the program cannot go on.
    async fn called(
        &mut self,
        state: &HttpState,
        origin: &Origin,
        file: String,
    ) -> Result<Option<Call>, String> {
        let is_new = is_call(&file) && !self.calls.values().any(|other| *other == file);
        if !is_new {
            return Ok(None);
        }
        self.made += 1;
        if self.made > MAX_CALLS_IN_ALL {
            return Err(format!(
                "the program has made more than {MAX_CALLS_IN_ALL} calls, which is the limit"
            ));
        }
        let text = match self.read(state, &file).await {
            Ok(text) => text,
            // Nobody waits beside it.
            Err(FilesError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        match self.parse(&text) {
            Ok((name, input)) => {
                let id = format!("call_{:03}", self.made);
                self.calls.insert(id.clone(), file);
                Ok(Some(Call { id, name, input }))
            }
            Err(refused) => {
                let answered = self.answer(state, origin, &file, Err(refused)).await;
                answered.map_err(|error| error.to_string())?;
                Ok(None)
            }
        }
    }

    async fn read(&self, state: &HttpState, file: &str) -> Result<Vec<u8>, FilesError> {
        let (_, open) = state.0.services.files.open(&self.session, file).await?;
        let mut text = Vec::new();
        let mut file = tokio::fs::File::from_std(open.file).take(MAX_INPUT as u64 + 1);
        file.read_to_end(&mut text)
            .await
            .map_err(FilesError::Read)?;
        Ok(text)
    }

    /// The tool and its arguments, or why there is none of that kind.
    fn parse(&self, text: &[u8]) -> Result<(String, Box<RawValue>), String> {
        if text.len() > MAX_INPUT {
            return Err(format!(
                "the arguments have more than {MAX_INPUT} bytes, which is the limit"
            ));
        }
        let text =
            std::str::from_utf8(text).map_err(|_| "the arguments are not UTF-8".to_owned())?;
        let (name, input) = text.split_once('\n').unwrap_or((text, ""));
        if !self.tools.contains(name) {
            return Err("there is no such tool".to_owned());
        }
        let input = Some(input.trim()).filter(|input| !input.is_empty());
        let input = RawValue::from_string(input.unwrap_or("{}").to_owned());
        let input = input.map_err(|error| format!("the argument is no JSON: {error}"))?;
        if !input.get().starts_with('{') {
            let example = r#"'{"key": 1}'"#;
            return Err(format!(
                "the argument must be an object of JSON, such as {example}"
            ));
        }
        Ok((name.to_owned(), input))
    }

    /// What the client is told at the end.
    async fn ended(&mut self, state: &HttpState) -> Result<Value, ApiError> {
        match self.run.ended().await.as_ref() {
            Ok(rendered) => self.completed(state, rendered).await,
            Err(error) => Err(error.into()),
        }
    }

    async fn completed(
        &mut self,
        state: &HttpState,
        rendered: &Rendered,
    ) -> Result<Value, ApiError> {
        let outcome = &rendered.outcome;
        if let Some(message) = Ended::of(outcome).message {
            self.printed.stderr.push_str(&self.inputs.notes());
            return Ok(match outcome.status {
                RunStatus::Timeout | RunStatus::OutOfMemory | RunStatus::OutputLimit => {
                    self.error(&message)
                }
                _ => self.failed(FAILED, &message),
            });
        }
        let services = &state.0.services;
        let printed = self.printed.clone();
        let answer = program::answer(services, &self.session, &self.inputs, outcome, printed);
        match answer.await {
            Ok(mut answer) => {
                answer["status"] = "completed".into();
                Ok(answer)
            }
            Err(ApiError(error)) => Ok(self.failed(FAILED, &error.message)),
        }
    }

    /// The end of a program whose turn takes too long. One that has printed more than is kept may wait for a call that
    /// nobody has seen.
    fn too_late(&mut self) -> Value {
        let dropped = self.run.progress.capture.snapshot().stdout.dropped;
        self.error(if dropped > 0 { TOO_MUCH } else { TOO_LATE })
    }

    /// The end of a program that has failed otherwise than by itself.
    fn error(&mut self, message: &str) -> Value {
        let printed = std::mem::take(&mut self.printed);
        json!({
            "status": "error",
            "error": message,
            "session_id": self.session.id(),
            "stdout": printed.stdout,
            "stderr": printed.stderr,
        })
    }

    /// The same, with a reason that clients do not pass on otherwise.
    fn failed(&mut self, message: &str, reason: &str) -> Value {
        self.printed.stderr.push_str(&program::note(reason));
        self.error(message)
    }

    pub(super) fn session(&self) -> &str {
        self.session.id()
    }
}

/// Whether a file can be that of a call.
fn is_call(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    name.len() <= MAX_NAME
        && name
            .strip_prefix(CALL)
            .is_some_and(|rest| rest.bytes().all(fits))
}
