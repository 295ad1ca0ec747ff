//! `sandbox_run_python` and the like: sessions with artifacts below `/mnt/data`, and errors as answers.
//!
//! A session is a conversation. Only our own mistakes are errors of the protocol: clients of this set look for `error`.

pub(super) mod files;

use std::ops::Not;

use futures::FutureExt as _;
use rmcp::model::{CallToolResult, ContentBlock, ErrorData, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Adapter;
use crate::api::arguments::{ignored, parse};
use crate::api::code::Code;
use crate::api::error::CallError;
use crate::api::names::{CLOSE, LIST, READ, RUN, UPLOAD, argument, translated};
use crate::api::python::{PYTHON, time_limited, with_reason};
use crate::config::Toolset;
use crate::conversation::Conversation;
use crate::executor::spec::DATA_ALIAS;
use crate::links::FileLink;
use crate::mcp::error::internal_error;
use crate::mcp::tools::{Call, define, structured};
use crate::run::RunRequest;
use crate::run::outcome::RunStatus;
use crate::scope::{Scope, Scopes};
use crate::services::Services;
use crate::units::size_as_set;

/// Longest session id.
const MAX_ID: usize = 64;
/// The exit code of a program that was stopped.
const STOPPED: i32 = -1;

/// What a client's model is told once.
pub(super) const INSTRUCTIONS: &str = "Runs Python in isolated containers. Leave session_id out of the first call and \
    give the one that it returns to all others: they share the files in /mnt/data. Variables are not kept between \
    runs. Close the session when you are done.";

/// The tools of this set.
pub(super) const TOOLS: &[Adapter] = &[
    Adapter {
        name: CLOSE,
        tool: |_| close_tool(),
        needs: Scopes::of(Scope::Files),
        call: |call, arguments| answered(CLOSE, close(call, arguments)).boxed(),
    },
    Adapter {
        name: LIST,
        tool: |_| files::list_tool(),
        needs: Scopes::of(Scope::Files),
        call: |call, arguments| answered(LIST, files::list(call, arguments)).boxed(),
    },
    Adapter {
        name: READ,
        tool: |_| files::read_tool(),
        needs: Scopes::of(Scope::Files),
        call: |call, arguments| answered(READ, files::read(call, arguments)).boxed(),
    },
    Adapter {
        name: RUN,
        tool: run_tool,
        needs: Scopes::of(Scope::Run),
        call: |call, arguments| answered(RUN, run(call, arguments)).boxed(),
    },
    Adapter {
        name: UPLOAD,
        tool: files::upload_tool,
        needs: Scopes::of(Scope::Files),
        call: |call, arguments| answered(UPLOAD, files::upload(call, arguments)).boxed(),
    },
];

/// An error with a code of this set.
#[derive(Debug)]
struct Refusal {
    code: &'static str,
    error: CallError,
    /// Bytes of the file that the error is about.
    size: Option<u64>,
}

impl Refusal {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        let error = CallError::new(Code::InvalidArguments, message);
        Self {
            code,
            ..error.into()
        }
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        let code = match error.code {
            Code::FileTooLarge => "upload_too_large",
            Code::FileNotFound => "not_found",
            code => code.into_str(),
        };
        Self {
            code,
            error,
            size: None,
        }
    }
}

async fn answered(
    tool: &str,
    call: impl Future<Output = Result<CallToolResult, Refusal>>,
) -> Result<CallToolResult, ErrorData> {
    call.await.or_else(|Refusal { code, error, size }| {
        if error.code == Code::Panicked {
            return Err(internal_error());
        }
        let error = error.naming(|about| argument(tool, about));
        let message = translated(Toolset::Artifacts, &error.message);
        let mut error = json!({ "error": code, "code": code, "message": message });
        if let Some(size) = size {
            error["size_bytes"] = size.into();
        }
        Ok(CallToolResult::structured(error))
    })
}

/// The given session, or a new one.
fn session(call: &Call<'_>, id: Option<&str>) -> Result<Conversation, Refusal> {
    if let Some(id) = id {
        return checked(call, id, "leave it out to get a new one");
    }
    let minted = format!("sess_{}", hex::encode(rand::random::<[u8; 16]>()));
    let session = call.conversation(Some(&minted));
    session.map_err(|error| CallError::from(error).into())
}

/// The id of a session, and what to do if it is none.
fn checked(call: &Call<'_>, id: &str, instead: &str) -> Result<Conversation, Refusal> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if id.is_empty() || id.len() > MAX_ID || !id.bytes().all(fits) {
        let message =
            format!("session_id must be 1 to {MAX_ID} letters, digits, '_' and '-': {instead}");
        return Err(Refusal::new("invalid_session_id", message));
    }
    call.conversation(Some(id))
        .map_err(|error| Refusal::new("invalid_session_id", format!("{error}")))
}

/// The given session, where it cannot be a new one.
fn known(call: &Call<'_>, id: &str) -> Result<Conversation, Refusal> {
    checked(
        call,
        id,
        "give the one that the first run or upload returned",
    )
}

/// The given session, which must exist.
async fn existing(call: &Call<'_>, id: &str) -> Result<Conversation, Refusal> {
    let id = known(call, id)?;
    if !call
        .services
        .files
        .exists(&id)
        .await
        .map_err(CallError::from)?
    {
        let message = "there is no such session: leave session_id out of the next run or upload to get a new one";
        return Err(Refusal::new("session_not_found", message));
    }
    Ok(id)
}

/// Refuses what would disturb a run.
fn idle(call: &Call<'_>, id: &Conversation) -> Result<(), Refusal> {
    if call.services.conversations.is_busy(id) {
        let message =
            "a program of this session is running: wait for its end, or use another session";
        return Err(Refusal::new("session_busy", message));
    }
    Ok(())
}

/// A file of a session.
#[derive(Debug, Serialize, JsonSchema)]
struct Artifact {
    /// Its path for programs.
    path: String,
    /// The last part of its path.
    filename: String,
    size_bytes: u64,
    mime_type: String,
    /// Where anyone who has this address can download it.
    download_url: String,
}

impl Artifact {
    fn of(file: &FileLink) -> Self {
        Self {
            path: path(&file.name),
            filename: base(&file.name).to_owned(),
            size_bytes: file.size,
            mime_type: file.mime_type.clone(),
            download_url: file.url.clone(),
        }
    }
}

/// A file's path for programs.
fn path(name: &str) -> String {
    format!("{DATA_ALIAS}/{name}")
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[derive(Debug, Deserialize, JsonSchema)]
struct RunArguments {
    /// The whole program. Print what you want to see; write files to /mnt/data.
    code: String,
    /// The session whose files it sees: 1 to 64 letters, digits, `_` and `-`. Left out: a new one is made.
    #[serde(default)]
    #[schemars(with = "String")]
    session_id: Option<String>,
    /// Python, by any of its names.
    #[serde(default)]
    #[schemars(with = "String", extend("x-unlisted" = true))]
    language: Option<String>,
    /// Time limit in seconds.
    #[serde(default)]
    #[schemars(with = "f64", extend("x-unlisted" = true))]
    timeout: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RunAnswer {
    session_id: String,
    run_id: String,
    exit_code: i32,
    stdout: String,
    stderr: String,
    stdout_truncated: bool,
    stderr_truncated: bool,
    artifacts: Vec<Artifact>,
    /// Only there when it is true: those servers know of no limit.
    #[serde(skip_serializing_if = "Not::not")]
    artifacts_truncated: bool,
    duration_ms: u64,
}

fn run_tool(services: &Services) -> Tool {
    let description = format!(
        "Runs a Python program in an isolated container and returns its output, its exit code (-1 when it was \
         stopped) and the files that it made. Files in /mnt/data are kept for the session, variables are not. Limits: \
         {} s, {} of memory, {} of code, no internet. Example: {{\"code\": \"print(6 * 7)\"}}",
        services.limits.timeout.as_secs_f64(),
        size_as_set(services.limits.memory),
        size_as_set(services.limits.code as u64),
    );
    let annotations = ToolAnnotations::new().read_only(false).destructive(true);
    tool::<RunArguments>(RUN, "Run Python", description, &annotations)
}

async fn run(call: &Call<'_>, arguments: JsonObject) -> Result<CallToolResult, Refusal> {
    let note = ignored::<RunArguments>(RUN, &arguments);
    let RunArguments {
        code,
        session_id,
        language,
        timeout,
    } = parse(RUN, arguments)?;
    super::check_language(RUN, language.as_deref(), call.services)?;
    let timeout = timeout.map(|seconds| time_limited(seconds, call.services.limits.timeout_max));
    let id = session(call, session_id.as_deref())?;
    idle(call, &id)?;
    let request = RunRequest {
        timeout: timeout.transpose()?,
        ..RunRequest::plain(id, PYTHON, code)
    };
    let outcome = super::run(call, RUN, request).await?;
    if outcome.status == RunStatus::EngineLost {
        let message = outcome.hint.unwrap_or_default();
        return Err(Refusal::new("docker_unavailable", message));
    }
    let new = outcome.files.iter().filter(|file| file.new);
    let artifacts: Vec<_> = new.map(Artifact::of).collect();
    let mut answer = structured(&RunAnswer {
        // New files come first: if there are others too, no new one is left out.
        artifacts_truncated: outcome.files_truncated && artifacts.len() == outcome.files.len(),
        artifacts,
        exit_code: outcome.exit_code.unwrap_or(STOPPED),
        stderr: with_reason(Toolset::Artifacts, &outcome),
        stdout_truncated: outcome.truncated.stdout > 0,
        stderr_truncated: outcome.truncated.stderr > 0,
        stdout: outcome.stdout,
        duration_ms: outcome.duration_ms,
        run_id: outcome.run_id,
        session_id: outcome.conversation_id,
    });
    answer.content.extend(note.map(ContentBlock::text));
    Ok(answer)
}

#[derive(Debug, Deserialize, JsonSchema)]
struct SessionArguments {
    /// The session.
    session_id: String,
}

fn close_tool() -> Tool {
    let description =
        "Ends a session and deletes its files for ever. Example: {\"session_id\": \"sess_1f…\"}";
    let annotations = ToolAnnotations::new().destructive(true);
    tool::<SessionArguments>(
        CLOSE,
        "Close a session",
        description.to_owned(),
        &annotations,
    )
}

async fn close(call: &Call<'_>, arguments: JsonObject) -> Result<CallToolResult, Refusal> {
    let SessionArguments { session_id } = parse(CLOSE, arguments)?;
    // Its first program may not have made its directory yet.
    idle(call, &known(call, &session_id)?)?;
    let id = existing(call, &session_id).await?;
    let deleted = call
        .services
        .conversations
        .delete(&call.origin(CLOSE), &id)
        .await;
    deleted.map_err(CallError::from)?;
    Ok(CallToolResult::structured(json!({ "status": "closed" })))
}

/// A tool without a schema for its answers, which can be errors of another form.
fn tool<Arguments: JsonSchema + 'static>(
    name: &'static str,
    title: &str,
    description: String,
    annotations: &ToolAnnotations,
) -> Tool {
    let annotations = annotations.clone().open_world(false);
    let mut tool = define::<Arguments, Artifact>(name, title, description, annotations);
    tool.output_schema = None;
    tool
}
