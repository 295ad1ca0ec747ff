//! `POST /api/v1/execute`: runs a program and streams what it prints.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse as _, Response};
use futures::stream::unfold;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::envelope::Envelope;
use super::error::Failures;
use super::events::{Collected, Event, Feed};
use super::extract::{FromCaller, JsonBody, session_id};
use super::variables;
use super::{ApiError, refusal};
use crate::audit::Origin;
use crate::http::HttpState;
use crate::kernels::KernelError;
use crate::ledger::RunHandle;
use crate::principal::Principal;
use crate::run::outcome::RunResult;
use crate::run::stage::Stage;
use crate::run::{KernelWish, RunError, RunRequest, TimeArgument, time_limit};
use crate::runner::Input;
use crate::scope::{Rights, Scope, Scopes};
use crate::services::Services;

/// The language of a program when none is named.
const LANGUAGE: &str = "python";

/// A program.
#[derive(Debug, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecuteRequest {
    /// The whole program.
    #[schema(example = "print(6 * 7)")]
    code: String,
    /// What it reads from its standard input, at most 1 MiB; left out: nothing. In TypeScript only without `stateful`,
    /// which then is not implied for a new session.
    stdin: Option<String>,
    /// Its language or an alias of it; `python` when left out.
    #[schema(example = "python")]
    language: Option<String>,
    /// The session whose files it sees: 1 to 256 bytes. Left out: a new one is made and told in the result.
    #[schema(min_length = 1, max_length = 256)]
    session_id: Option<String>,
    /// Time limit in seconds; left out: the server's default.
    #[schema(exclusive_minimum = 0)]
    timeout: Option<f64>,
    /// Whether variables, imports and functions live on for the session's next program, and the value of a last
    /// expression is shown. Left out: yes in a language that can do it.
    stateful: Option<bool>,
    /// Whether it waits in turn while another program has the session's variables, instead of being refused.
    #[serde(default)]
    wait: bool,
    /// Whether it begins without the variables that there are.
    #[serde(default)]
    restart: bool,
    /// Listed hosts that it may reach, where the server's operator lists some; left out: none.
    #[serde(default)]
    #[schema(example = json!(["api.example.org"]))]
    hosts: Vec<String>,
    /// Variables of secrets that it may use at their hosts and cannot read, where the server's operator has some for
    /// the caller; left out: none.
    #[serde(default)]
    #[schema(example = json!(["GITHUB_TOKEN"]))]
    secrets: Vec<String>,
    /// Variables that it begins with, by name; for Python and TypeScript. They are set in a line before the first.
    variables: Option<Map<String, Value>>,
}

/// Runs a program
///
/// Streams lines of JSON while it runs: text that it prints, at its end pictures that it made, an error when it did
/// not end well, and as the last line its result. Going away ends the program.
#[utoipa::path(
    post, path = "/api/v1/execute", tag = "runs", operation_id = "execute",
    request_body = ExecuteRequest,
    responses(
        (status = 200, description = "What it prints, one JSON object in a line", body = Event, content_type = "application/x-ndjson"),
        (status = 409, description = "The session's variables are in use by another program", body = super::error::ErrorBody),
        Failures
    )
)]
pub(super) async fn execute(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Extension(rights): Extension<Rights>,
    JsonBody(request): JsonBody<ExecuteRequest>,
) -> Result<Response, ApiError> {
    if let Err(forbidden) = rights.check(request.needs()) {
        return Ok(refusal(forbidden));
    }
    let unanswered = state.0.calls.token();
    let feed = start(&state, &origin, request).await?;
    let lines = unfold((feed, unanswered), async |(mut feed, unanswered)| {
        let line = feed.next().await?;
        Some((Ok::<_, std::convert::Infallible>(line), (feed, unanswered)))
    });
    let headers = [
        (CONTENT_TYPE, "application/x-ndjson"),
        (CACHE_CONTROL, "no-store"),
        // nginx would pass on many lines together, or all of them at the end.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// Runs a program and waits for its end
///
/// The same in one answer. Going away ends the program.
#[utoipa::path(
    post, path = "/api/v1/execute_sync", tag = "runs", operation_id = "execute_sync",
    request_body = ExecuteRequest,
    responses(
        (status = 200, description = "What it printed, and what went wrong", body = Envelope<Collected>),
        (status = 409, description = "The session's variables are in use by another program", body = super::error::ErrorBody),
        Failures
    )
)]
pub(super) async fn execute_sync(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Extension(rights): Extension<Rights>,
    JsonBody(request): JsonBody<ExecuteRequest>,
) -> Result<Response, ApiError> {
    if let Err(forbidden) = rights.check(request.needs()) {
        return Ok(refusal(forbidden));
    }
    let _unanswered = state.0.calls.token();
    let feed = start(&state, &origin, request).await?;
    Ok(Json(Envelope::of(feed.collect().await?)).into_response())
}

/// Starts a program and waits until it can no longer be refused.
async fn start(
    state: &HttpState,
    origin: &Origin,
    request: ExecuteRequest,
) -> Result<Feed, ApiError> {
    // Who asked for no variables gets the program without them, rather than none.
    let implied = request.stateful.is_none() && request.session_id.is_none();
    let request = request.into_run(&state.0.services, &origin.caller)?;
    match begin(state, origin, request.clone()).await {
        Ok(feed) => Ok(feed),
        Err(refused) => match refused.as_ref() {
            Err(RunError::Kernel(KernelError::Full(_))) if implied => {
                let plain = RunRequest {
                    stateful: false,
                    ..request
                };
                let begun = begin(state, origin, plain).await;
                begun.map_err(|refused| reason(&refused))
            }
            _ => Err(reason(&refused)),
        },
    }
}

/// Starts a run. Returns its result if it is refused.
async fn begin(state: &HttpState, origin: &Origin, request: RunRequest) -> Result<Feed, RunResult> {
    let (caller, session) = (&origin.caller, request.conversation.clone());
    state.0.sessions.note(caller, &session);
    let run = state.0.services.ledger.start(origin.clone(), request);
    let feed = Feed::new(Arc::clone(&run), state.clone());
    begun(&run).await;
    match run.result() {
        Some(refused) if refused.is_err() => {
            state.0.sessions.take_back(caller, &session);
            Err(refused)
        }
        _ => Ok(feed),
    }
}

/// Why a run was refused.
fn reason(refused: &RunResult) -> ApiError {
    match refused.as_ref() {
        Err(error) => error.into(),
        Ok(_) => (&RunError::Panicked).into(),
    }
}

/// Waits until the answer may begin, so that a run that is refused before has the status of its refusal.
async fn begun(run: &RunHandle) {
    let mut stages = run.progress.stage.subscribe();
    // The run owns the sender.
    let _ = stages.wait_for(Stage::may_be_answered).await;
}

impl ExecuteRequest {
    fn has_network(&self) -> bool {
        !self.hosts.is_empty() || !self.secrets.is_empty()
    }

    /// The scopes that it needs.
    fn needs(&self) -> Scopes {
        let run = Scopes::of(Scope::Run);
        if self.has_network() {
            run.union(Scopes::of(Scope::Network))
        } else {
            run
        }
    }

    fn into_run(self, services: &Services, caller: &Principal) -> Result<RunRequest, ApiError> {
        let (files, network) = (&services.files, self.has_network());
        let language = self.language.unwrap_or_else(|| LANGUAGE.to_owned());
        let view = services.status.view_for(caller.tenant());
        let runner = view.find(&language);
        let keeps = runner.is_some_and(|runner| services.status.has_kernels_for(runner));
        let kernel_reads =
            self.stdin.is_none() || runner.is_some_and(|runner| runner.stdin == Input::All);
        let implied = keeps && (kernel_reads || self.session_id.is_some());
        let spoken = runner.map_or(&*language, |runner| &runner.language);
        let code = match &self.variables {
            Some(variables) => variables::before(self.code, spoken, variables)?,
            None => self.code,
        };
        Ok(RunRequest {
            conversation: match self.session_id {
                Some(id) => files.conversation(caller, id.parse().map_err(session_id)?),
                None => files.new_conversation(caller),
            },
            language,
            code,
            stdin: self.stdin,
            network,
            hosts: self.hosts,
            granted: Vec::new(),
            secrets: self.secrets,
            environment: std::collections::BTreeMap::new(),
            timeout: self
                .timeout
                .map(|seconds| timeout(seconds, services.limits.timeout_max))
                .transpose()?,
            time_argument: Some(TimeArgument {
                name: "timeout",
                max: services.limits.timeout_max,
            }),
            stateful: self.stateful.unwrap_or(implied),
            kernel: KernelWish {
                wait: self.wait,
                restart: self.restart,
                number: 0,
                records: None,
            },
        })
    }
}

/// The time limit that a field named `timeout` asks for.
fn timeout(seconds: f64, max: Duration) -> Result<Duration, ApiError> {
    time_limit(seconds, max).ok_or_else(|| {
        ApiError::arguments(format!(
            "timeout is {seconds:?}: it must be greater than 0 and at most {} seconds",
            max.as_secs_f64()
        ))
    })
}
