//! `run_code`: runs a program and returns its output, its files and how it ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolResponse, CreateTaskResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

use super::{Call, define, outcome, parse, structured, without_argument};
use crate::allow_list::HostName;
use crate::api::arguments::ignored;
use crate::api::error::CallError;
use crate::api::outcome::RunOutcome;
use crate::config::RunLimits;
use crate::gate::network::Reach;
use crate::ledger::{self, RunHandle};
use crate::mcp::asking::{self, Asked};
use crate::mcp::live::{self, Woken};
use crate::mcp::{logs, tasks};
use crate::principal::Tenant;
use crate::run::{KernelWish, RunError, RunRequest, TimeArgument, time_limit};
use crate::scope::{Scope, Scopes};
use crate::secrets::DeclaredSecret;
use crate::services::Services;
use crate::units::size_as_set;

pub(super) const NAME: &str = "run_code";

/// A client that follows tasks gets one after this time, so that it can show what it is waiting for.
const TASK_AFTER: Duration = Duration::from_secs(5);
/// A run whose limit is within the budget is over this soon after it, unless it still waits for a place or its turn.
const SHORT_GRACE: Duration = Duration::from_secs(5);
/// Where a client says in `_meta` by which id it will ask for the run. It can find it again whatever becomes of the
/// call, so the run goes on when the call breaks off. Clients that do not ask see no difference.
const RUN_ID: &str = "mcp-code-sandbox/run";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "what clients send")]
struct Arguments {
    /// Names the conversation whose files the program sees in /data. Leave it out of the first call, which makes and
    /// returns a new one: one that you make up may be somebody else's. 1 to 256 bytes.
    #[serde(default)]
    #[schemars(with = "String")]
    conversation_id: Option<String>,
    /// Language of the program, for example "python": see `list_runners`.
    language: String,
    /// The whole program. Print what you want to see: without stateful, the value of the last expression is not shown.
    code: String,
    /// What the program reads from its standard input, for example lines for `input()`; at most 1 MiB. Nobody answers
    /// while it runs: without this it is at the end of its input at once.
    #[serde(default)]
    #[schemars(with = "String")]
    stdin: Option<String>,
    /// Whether the program may use the internet. Off by default; an operator can refuse it.
    #[serde(default)]
    network: bool,
    /// With network: the listed hosts that the program may reach, if it needs fewer than all; implies network.
    #[serde(default)]
    hosts: Vec<String>,
    /// Variables of secrets that the program may use at their hosts and cannot read: in each it finds a placeholder,
    /// which it sends as if it were the secret; implies network.
    #[serde(default)]
    secrets: Vec<String>,
    /// Environment variables for the program, at most 64.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    environment: BTreeMap<String, Variable>,
    /// Time limit in seconds; left out: the server's default.
    #[serde(default)]
    #[schemars(with = "f64", range(min = 0))]
    timeout_seconds: Option<f64>,
    /// Keeps variables, imports and functions for the next stateful run of this conversation and language, as a
    /// notebook does. The value of the last expression is shown. See `list_runners` for the languages that can.
    #[serde(default)]
    stateful: bool,
    /// With stateful: wait in turn while another run has the kernel, instead of the error `session_busy`.
    #[serde(default)]
    wait: bool,
    /// With stateful: begin with a new kernel, without the variables of earlier runs.
    #[serde(default)]
    restart: bool,
}

/// A variable's value. Models write numbers and booleans without quotes.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a value must be a string, number or boolean")]
enum Variable {
    Text(String),
    Number(serde_json::Number),
    Flag(bool),
}

impl From<Variable> for String {
    fn from(variable: Variable) -> Self {
        match variable {
            Variable::Text(text) => text,
            Variable::Number(number) => number.to_string(),
            Variable::Flag(flag) => flag.to_string(),
        }
    }
}

pub(super) fn tool(services: &Services, tenant: &Tenant) -> Tool {
    let limits = &services.limits;
    let view = services.status.view_for(tenant);
    let languages: Vec<_> = view.runners.keys().map(String::as_str).collect();
    let reach = services.status.reach_for(tenant);
    let secrets = services.status.secrets_for(tenant);
    let description = format!(
        "Runs a program in an isolated container and returns its output. Use it to calculate, analyse data, draw \
         charts or try code. Languages here: {}. The program starts in /data, which holds the conversation's files; \
         what it writes there is kept and returned as links (save charts to files). Variables are not kept between \
         calls unless stateful is true. Limits: {} s (timeoutSeconds up to {}; above {} the answer can be \
         status \"running\": then call get_run), {} of memory, {} of code, {}. Example: {{\"language\": \"python\", \"code\": \"import pandas as pd\\n\
         print(pd.read_csv('data.csv').describe())\", \"conversationId\": \"conv_1f…\"}}",
        languages.join(", "),
        limits.timeout.as_secs_f64(),
        limits.timeout_max.as_secs_f64(),
        limits.call_budget.as_secs_f64(),
        size_as_set(limits.memory),
        size_as_set(limits.code as u64),
        network(&reach, services.status.asks_for_hosts(), &secrets),
    );
    let annotations = ToolAnnotations::new()
        .read_only(false)
        .destructive(true)
        .idempotent(false)
        .open_world(true);
    let tool = define::<Arguments, RunOutcome>(NAME, "Run code", description, annotations);
    // Where there are none to choose from, they are not offered.
    let tool = match reach {
        Reach::Listed(_) => tool,
        Reach::Nothing | Reach::Internet => without_argument(tool, "hosts"),
    };
    if secrets.is_empty() {
        without_argument(tool, "secrets")
    } else {
        tool
    }
}

/// What programs reach, and which secrets they can use there, in words.
fn network(reach: &Reach, asks: bool, secrets: &[Arc<DeclaredSecret>]) -> String {
    let reached = match reach {
        Reach::Nothing | Reach::Internet => "no internet unless network is true".to_owned(),
        Reach::Listed(list) if list.is_empty() => "no internet".to_owned(),
        Reach::Listed(list) => format!(
            "no internet; network: true reaches only {list} (HTTPS, unless a port is given)"
        ),
    };
    let reached = match reach {
        Reach::Listed(_) if asks => {
            format!("{reached}; hosts can name others, for which the person is asked")
        }
        _ => reached,
    };
    let Reach::Listed(list) = reach else {
        return reached;
    };
    let each = secrets.iter().map(|secret| {
        let hosts: Vec<_> = secret.hosts_in(list).map(HostName::as_str).collect();
        format!("{} for {}", secret.variable, hosts.join(" and "))
    });
    let each: Vec<_> = each.collect();
    if each.is_empty() {
        return reached;
    }
    format!("{reached}; secrets: {}", each.join(", "))
}

/// The scopes that it needs: one more with the network. Arguments that do not fit start no run.
pub(super) fn needs(arguments: Option<&JsonObject>) -> Scopes {
    let run = Scopes::of(Scope::Run);
    let arguments = arguments.cloned().unwrap_or_default();
    let has_network =
        |given: Arguments| given.network || !given.hosts.is_empty() || !given.secrets.is_empty();
    if parse(NAME, arguments).is_ok_and(has_network) {
        run.union(Scopes::of(Scope::Network))
    } else {
        run
    }
}

pub(super) async fn call(
    call: &Call<'_>,
    arguments: JsonObject,
) -> Result<CallToolResponse, CallError> {
    let note = ignored::<Arguments>(NAME, &arguments);
    let request = request(call, arguments)?;
    call.client.remember(&request.conversation);
    if let Asked::Input(required) = asking::ask(call, NAME, &request).await? {
        return Ok(required.into());
    }
    let limits = &call.services.limits;
    let Started { run, guard } = start(call, request)?;
    let patience = if run.timeout <= limits.call_budget {
        limits.call_budget + SHORT_GRACE
    } else if call.supports_tasks() {
        limits.call_budget.min(TASK_AFTER)
    } else {
        limits.call_budget
    };
    let due = Some(Instant::now() + patience);
    match live::wait(&run, call.context, &call.caller, 0, due).await {
        Woken::Ended(result) => {
            guard.map(DropGuard::disarm);
            let rendered = result.as_ref().as_ref().map_err(CallError::from)?;
            let mut outcome = RunOutcome::ended(&run, rendered);
            outcome.notes.extend(note);
            logs::ended(call.context, &call.caller, call.client, &outcome).await;
            Ok(outcome::answer(call, &run, &outcome).await.into())
        }
        Woken::Cancelled => {
            drop(guard);
            // Nobody reads this. A run that is ending has ended before the server stops.
            Ok(structured(&RunOutcome::unread(&run)).into())
        }
        Woken::Due => {
            guard.map(DropGuard::disarm);
            if call.supports_tasks() {
                return Ok(CallToolResponse::Task(CreateTaskResult::new(tasks::task(
                    &run,
                ))));
            }
            Ok(structured(&RunOutcome::so_far(&run).await).into())
        }
    }
}

/// A run, and what ends it together with its call.
struct Started {
    run: Arc<RunHandle>,
    guard: Option<DropGuard>,
}

/// Whatever happens to a call, a run that nobody waits for is cancelled, or its caller knows its id.
fn start(call: &Call<'_>, request: RunRequest) -> Result<Started, CallError> {
    let origin = call.origin(NAME);
    let Some(id) = call.context.meta.get(RUN_ID) else {
        let run = call.services.ledger.start(origin, request);
        let guard = Some(run.cancel_on_drop());
        return Ok(Started { run, guard });
    };
    let Some(id) = id.as_str().filter(|id| ledger::is_id(id)) else {
        return Err(CallError::invalid(&format!(
            "run_code: {RUN_ID} in _meta is no id of a run: give run_ and 32 random hexadecimal digits, in lower case"
        )));
    };
    let Some(run) = call
        .services
        .ledger
        .start_as(id.to_owned(), origin, request)
    else {
        return Err(CallError::invalid(&format!(
            "run_code: {RUN_ID} in _meta names a run that has begun already: ask for it with get_run, or give a new id"
        )));
    };
    Ok(Started { run, guard: None })
}

fn request(call: &Call<'_>, arguments: JsonObject) -> Result<RunRequest, CallError> {
    let arguments: Arguments = parse(NAME, arguments)?;
    let limits = &call.services.limits;
    Ok(RunRequest {
        conversation: call.conversation(arguments.conversation_id.as_deref())?,
        language: arguments.language,
        code: arguments.code,
        stdin: arguments.stdin,
        network: arguments.network || !arguments.hosts.is_empty() || !arguments.secrets.is_empty(),
        hosts: arguments.hosts,
        granted: Vec::new(),
        secrets: arguments.secrets,
        environment: arguments
            .environment
            .into_iter()
            .map(|(name, value)| (name, value.into()))
            .collect(),
        timeout: arguments
            .timeout_seconds
            .map(|seconds| timeout(seconds, limits))
            .transpose()?,
        time_argument: Some(TimeArgument {
            name: "timeoutSeconds",
            max: limits.timeout_max,
        }),
        stateful: arguments.stateful,
        kernel: KernelWish {
            wait: arguments.wait,
            restart: arguments.restart,
            number: 0,
            records: None,
        },
    })
}

fn timeout(seconds: f64, limits: &RunLimits) -> Result<Duration, RunError> {
    let max = limits.timeout_max;
    time_limit(seconds, max).ok_or(RunError::Timeout(seconds, max.as_secs_f64()))
}
