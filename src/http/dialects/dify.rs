//! The sandbox of Dify (`CODE_EXECUTION_ENDPOINT`), which runs the code and the template nodes of workflows.
//!
//! A node is a program that prints its result between tags, so standard output has to be exact and whole. Whatever is in
//! `error` fails the node, so a program that ended well has nothing there, whatever it warned of.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fields::Fields;
use super::guarded;
use crate::api::error::CallError;
use crate::api::once;
use crate::api::outcome::RunOutcome;
use crate::api::python::PYTHON;
use crate::executor::Stream;
use crate::http::HttpState;
use crate::http::rest::{ApiError, FromCaller};
use crate::ledger::RunHandle;
use crate::run::outcome::Rendered;
use crate::units::size_as_set;

/// What programs for Node.js are run as.
const JAVASCRIPT: &str = "typescript";

/// A node's program. Whether it wants the network, which every node does, is nothing to go by: it gets none.
#[derive(Debug, Deserialize)]
struct Program {
    /// `python3` or `nodejs`.
    language: String,
    code: String,
    /// What goes before it.
    #[serde(default)]
    preload: Option<String>,
}

/// What came of a request. Clients show `message` if `code` is not 0.
#[derive(Debug, Serialize)]
struct Answer {
    code: i32,
    message: &'static str,
    data: Printed,
}

/// What a program printed.
#[derive(Debug, Serialize)]
struct Printed {
    stdout: String,
    /// Why it failed; empty if it did not.
    error: String,
}

pub(super) fn routes(state: &HttpState) -> Router<HttpState> {
    let for_callers = Router::new()
        .route("/dify/v1/sandbox/run", post(run))
        .route("/dify/v1/sandbox/dependencies", get(dependencies));
    guarded(state, failed, for_callers).route("/dify/health", get(async || Json("ok")))
}

/// A failure: the status again as a negative number, since clients look for a number other than 0.
fn failed(error: &CallError) -> Value {
    let code = -i32::from(error.code.status().as_u16());
    json!({ "code": code, "message": error.message, "data": null })
}

/// Runs a program. What keeps it from running is told with status 200: of any other, clients show nothing but the
/// status.
async fn run(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    program: Result<Fields<Program>, ApiError>,
) -> Json<Value> {
    let _unanswered = state.0.calls.token();
    let answer = async {
        let Fields(program) = program?;
        let (language, code) = program.into_run()?;
        let run = once::start(&state.0.services, &state.0.calls, origin, language, code);
        let _guard = run.cancel_on_drop();
        match run.ended().await.as_ref() {
            Ok(rendered) => Ok(Answer::of(&run, rendered).await),
            Err(error) => Err(ApiError::from(error)),
        }
    };
    Json(match answer.await {
        Ok(answer) => json!(answer),
        Err(ApiError(error)) => failed(&error),
    })
}

/// What nodes could use besides what is always there: nothing can be added to that.
async fn dependencies() -> Json<Value> {
    Json(json!({ "code": 0, "message": "success", "data": { "dependencies": [] } }))
}

impl Program {
    /// The runner, and what it is to run.
    fn into_run(self) -> Result<(&'static str, String), ApiError> {
        let code = match self.preload.as_deref().map(str::trim) {
            None | Some("") => self.code,
            Some(preload) => format!("{preload}\n{}", self.code),
        };
        match &*self.language {
            "python3" => Ok((PYTHON, code)),
            "nodejs" => Ok((JAVASCRIPT, as_script(&code))),
            other => {
                let other: String = other.chars().take(64).collect();
                let message = format!("language is {other:?}: it must be python3 or nodejs");
                Err(ApiError::arguments(message))
            }
        }
    }
}

/// A program that runs another one as Node.js runs a file of no type: as the body of a function that is not strict, so
/// that it may assign to variables which it has not declared.
fn as_script(code: &str) -> String {
    let code = Value::from(code);
    format!(
        "((module) => new Function(\"exports\", \"require\", \"module\", \"__filename\", \"__dirname\", {code})\
         .call(module.exports, module.exports, require, module, \"/data/main.js\", \"/data\"))({{ exports: {{}} }});\n"
    )
}

impl Answer {
    async fn of(run: &RunHandle, rendered: &Rendered) -> Self {
        let captured = &rendered.outcome.captured;
        let outcome = RunOutcome::apart(run, rendered).await;
        let lost = captured.stdout.dropped;
        let error = if !outcome.success {
            once::complaint(&outcome)
        } else if lost > 0 {
            let kept = captured.bytes(Stream::Stdout).len() as u64;
            format!(
                "The program printed {} bytes, and a run keeps {} of them: print less, or ask the server's operator for \
                 a larger RUN_OUTPUT_LIMIT.",
                kept + lost,
                size_as_set(kept)
            )
        } else {
            String::new()
        };
        Self {
            code: 0,
            message: "success",
            data: Printed {
                stdout: captured.text(Stream::Stdout),
                error,
            },
        }
    }
}
