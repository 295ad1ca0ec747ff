//! `list_runners`: which languages there are, with versions, libraries and limits.

use std::collections::BTreeSet;

use rmcp::model::{CallToolResult, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{define, structured};
use crate::config;
use crate::packages::Packages;
use crate::principal::Tenant;
use crate::runner::catalog::EngineView;
use crate::services::Services;

pub(super) const NAME: &str = "list_runners";

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names that clients see")]
struct Runners {
    runners: Vec<RunnerInfo>,
    /// The same in short, where clients of `mcp-code-runner` look for it.
    #[schemars(skip)]
    languages: Vec<Spoken>,
    limits: Limits,
    /// Why there can be no runs at the moment; null when there can.
    unavailable: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RunnerInfo {
    /// What `run_code` takes as language.
    language: String,
    /// Other names for it.
    aliases: BTreeSet<String>,
    /// The container image.
    image: String,
    /// Versions and libraries.
    description: String,
    /// Whether `run_code` takes it with `stateful: true`.
    stateful: bool,
    /// Whether `install_packages` takes it.
    packages: bool,
}

#[derive(Debug, Serialize)]
struct Spoken {
    language: String,
    image: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Limits {
    timeout_seconds: f64,
    max_timeout_seconds: f64,
    memory_bytes: u64,
    cpus: f64,
    processes: u32,
    code_bytes: usize,
    upload_bytes: u64,
    conversation_bytes: u64,
    /// Kept of each of stdout and stderr.
    output_bytes: usize,
    /// Whether `network: true` is possible.
    network: bool,
}

pub(super) fn tool() -> Tool {
    let description = "Lists the languages that run_code takes, with versions, installed libraries and limits. Call it \
        once when you need to know which libraries there are. Example: {}";
    let annotations = ToolAnnotations::new()
        .read_only(true)
        .idempotent(true)
        .open_world(false);
    define::<Arguments, Runners>(NAME, "List languages", description.to_owned(), annotations)
}

pub(super) fn call(services: &Services, tenant: &Tenant) -> CallToolResult {
    let view = services.status.view_for(tenant);
    let runners = view.runners.values().map(|runner| RunnerInfo {
        language: runner.language.clone(),
        aliases: runner.aliases.clone(),
        image: runner.image.clone(),
        description: runner.description.clone(),
        stateful: services.status.has_kernels_for(runner),
        packages: Packages::are_for(&runner.language),
    });
    let languages = view.runners.values().map(|runner| Spoken {
        language: runner.language.clone(),
        image: runner.image.clone(),
    });
    let limits = &services.limits;
    // Without a limit, a run may have all that there are.
    let cores = match &view.engine {
        EngineView::Up(engine) => engine.cores,
        EngineView::Down(_) => None,
    };
    let cpus = limits
        .nano_cpus
        .map_or(f64::from(cores.unwrap_or(1)), config::cpus);
    structured(&Runners {
        runners: runners.collect(),
        languages: languages.collect(),
        limits: Limits {
            timeout_seconds: limits.timeout.as_secs_f64(),
            max_timeout_seconds: limits.timeout_max.as_secs_f64(),
            memory_bytes: limits.memory,
            cpus,
            processes: limits.pids,
            code_bytes: limits.code,
            upload_bytes: services.files.max_upload_bytes,
            conversation_bytes: services.files.workspaces.quota_of(tenant),
            output_bytes: limits.output,
            network: services.status.has_network_for(tenant),
        },
        unavailable: services.status.problem(),
    })
}
