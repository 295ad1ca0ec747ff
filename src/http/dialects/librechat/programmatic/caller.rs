//! A program that calls tools, from one turn to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::DropGuard;

use super::Request;
use super::stub;
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
use crate::principal::Principal;
use crate::run::RunRequest;
use crate::run::outcome::Rendered;
use crate::run::stage::Stage;
use crate::sandbox::RecordMark;
use crate::workspace::Existing;

/// Calls that come within this time of each other are told together.
const TOGETHER: Duration = Duration::from_millis(40);
/// Most calls of one turn: the others are told in the next.
const MAX_CALLS: usize = 200;
/// Longest arguments of one call in bytes.
const MAX_INPUT: u64 = 1 << 20;
/// What clients pass on to their model for a program that has no time left.
const TOO_LATE: &str = "Time limit exceeded";

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

/// A program whose tools are its client's. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) owner: Principal,
    session: Conversation,
    inputs: Inputs,
    tools: BTreeSet<String>,
    run: Arc<RunHandle>,
    events: CellEvents,
    printed: Printed,
    /// The files that answers are waited for beside, by the names that the client knows the calls by.
    calls: BTreeMap<String, String>,
    /// How many calls there were.
    made: u32,
    /// How long each turn may take.
    turn: Duration,
    _guard: DropGuard,
}

/// How a turn ended.
pub(super) enum Turn {
    /// These calls wait for their results.
    Calls(Vec<Value>),
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
        let language =
            program::language(services, tenant, request.lang.as_deref().unwrap_or("py"))?;
        let code = request
            .code
            .ok_or_else(|| ApiError::arguments("code is missing: give the program"))?;
        let tools: BTreeSet<_> = request.tools.into_iter().map(|tool| tool.name).collect();
        let mark = RecordMark::random();
        let code = stub::program(language, mark, tools.iter().map(String::as_str), &code)
            .map_err(ApiError)?;
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
            owner: origin.caller.clone(),
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
    pub(super) async fn give(
        &mut self,
        state: &HttpState,
        origin: &Origin,
        results: Vec<ToolResult>,
    ) -> Result<(), ApiError> {
        for result in results {
            let Some(file) = self.calls.remove(&result.call_id) else {
                continue;
            };
            let answer = if result.is_error {
                let message = result.error_message.unwrap_or_default();
                let otherwise = || "the tool has failed".to_owned();
                Err(Some(message)
                    .filter(|it| !it.is_empty())
                    .unwrap_or_else(otherwise))
            } else {
                Ok(result.result)
            };
            self.answer(state, origin, &file, answer).await?;
        }
        Ok(())
    }

    /// Leaves an answer where the program waits for it.
    async fn answer(
        &self,
        state: &HttpState,
        origin: &Origin,
        file: &str,
        answer: Result<Value, String>,
    ) -> Result<(), FilesError> {
        let text = match answer {
            Ok(value) => format!("ok\n{value}"),
            Err(message) => format!("error\n{message}"),
        };
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
    pub(super) async fn advance(
        &mut self,
        state: &HttpState,
        origin: &Origin,
    ) -> Result<Turn, ApiError> {
        let deadline = Instant::now() + self.turn;
        let mut calls = Vec::new();
        while calls.len() < MAX_CALLS {
            let event = if calls.is_empty() {
                timeout_at(deadline, self.events.next()).await
            } else {
                timeout(TOGETHER, self.events.next()).await
            };
            match event {
                Ok(Some(CellEvent::Printed(stream, text))) => self.printed.push(stream, &text),
                Ok(Some(CellEvent::Called(file))) => {
                    calls.extend(self.called(state, origin, file).await?);
                }
                Ok(Some(_)) => {}
                Ok(None) if calls.is_empty() => return self.ended(state).await.map(Turn::Ended),
                Err(_) if calls.is_empty() => return Ok(Turn::Ended(self.error(TOO_LATE))),
                Ok(None) | Err(_) => break,
            }
        }
        Ok(Turn::Calls(calls))
    }

    /// What the client is told of a call. One that it cannot be told of is answered here.
    async fn called(
        &mut self,
        state: &HttpState,
        origin: &Origin,
        file: String,
    ) -> Result<Option<Value>, ApiError> {
        let text = match self.read(state, &file).await {
            Ok(text) => text,
            // Whatever it is, nobody waits beside it.
            Err(FilesError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let refused = match self.parse(&text) {
            Ok((name, input)) => {
                self.made += 1;
                let id = format!("call_{:03}", self.made);
                self.calls.insert(id.clone(), file);
                return Ok(Some(json!({ "id": id, "name": name, "input": input })));
            }
            Err(refused) => refused,
        };
        self.answer(state, origin, &file, Err(refused)).await?;
        Ok(None)
    }

    async fn read(&self, state: &HttpState, file: &str) -> Result<Vec<u8>, FilesError> {
        let (_, open) = state.0.services.files.open(&self.session, file).await?;
        let mut text = Vec::new();
        let mut file = tokio::fs::File::from_std(open.file).take(MAX_INPUT + 1);
        file.read_to_end(&mut text)
            .await
            .map_err(FilesError::Read)?;
        Ok(text)
    }

    /// The tool and its arguments, or why there is none of that kind.
    fn parse<'a>(&self, text: &'a [u8]) -> Result<(&'a str, Value), String> {
        if text.len() as u64 > MAX_INPUT {
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
        let input = serde_json::from_str(input.unwrap_or("{}"));
        match input {
            Ok(input @ Value::Object(_)) => Ok((name, input)),
            Ok(_) => {
                Err("the argument must be an object of JSON, such as '{\"key\": 1}'".to_owned())
            }
            Err(error) => Err(format!("the argument is no JSON: {error}")),
        }
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
        if let Some(message) = Ended::of(&rendered.outcome).message {
            return Ok(self.error(&message));
        }
        let printed = std::mem::take(&mut self.printed);
        let services = &state.0.services;
        let mut answer = program::answer(
            services,
            &self.session,
            &self.inputs,
            &rendered.outcome,
            printed,
        )
        .await?;
        answer["status"] = "completed".into();
        Ok(answer)
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

    /// Whether it runs.
    pub(super) fn is_running(&self) -> bool {
        self.run.result().is_none()
    }

    pub(super) fn session(&self) -> &str {
        self.session.id()
    }
}
