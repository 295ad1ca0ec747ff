//! `pip_install`: one package for the programs of a caller.

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::api::arguments::parse;
use crate::api::error::CallError;
use crate::mcp::live::with_signs_of_life;
use crate::mcp::tools::{Call, define, structured};
use crate::mcp::toolset::names::argument;
use crate::mcp::toolset::{PYTHON, check_language};
use crate::packages::{Asked, InstallRequest, Installed, PackagesError};
use crate::principal::Principal;
use crate::services::Services;

pub(in crate::mcp::toolset) const NAME: &str = "pip_install";

/// What came of it.
#[derive(Debug, Serialize, JsonSchema, ToSchema)]
pub(crate) struct PipInstalled {
    /// Whether programs can import it now.
    success: bool,
    /// What happened, in a sentence.
    message: String,
    /// The version that is there; null when there is none.
    installed_version: Option<String>,
    /// Seconds that it took.
    installation_time: f64,
    /// Why nothing was installed, in a word; missing on success.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// Name of the package, such as "six"; extras such as `requests[socks]` are fine.
    package: String,
    /// Its version, such as "1.17.0"; left out: the newest that fits.
    #[serde(default)]
    #[schemars(with = "String")]
    version: Option<String>,
    /// Python, by any of its names.
    #[serde(default)]
    #[schemars(with = "String", extend("x-unlisted" = true))]
    language: Option<String>,
}

pub(super) fn tool(_services: &Services) -> Tool {
    let description = "Installs a Python package for all later programs of execute_python, from wheels of the package \
        index. Call it when an import fails. Example: {\"package\": \"six\", \"version\": \"1.17.0\"}";
    let annotations = ToolAnnotations::new()
        .read_only(false)
        .destructive(false)
        .idempotent(true)
        .open_world(true);
    define::<Arguments, PipInstalled>(
        NAME,
        "Install a package",
        description.to_owned(),
        annotations,
    )
}

pub(super) async fn call(
    call: &Call<'_>,
    arguments: JsonObject,
) -> Result<CallToolResult, CallError> {
    let Arguments {
        package,
        version,
        language,
    } = parse(NAME, arguments)?;
    check_language(NAME, language.as_deref(), call.services)?;
    let (services, caller) = (call.services, &call.caller.principal);
    let install = Box::pin(install(
        services,
        caller,
        package,
        version,
        &call.context.ct,
    ));
    let installed = with_signs_of_life(install, call.context, &call.caller).await?;
    Ok(structured(&installed))
}

/// Installs a package. A package that cannot be had is a result; errors are for faults of the call and for trouble of
/// the server.
pub(crate) async fn install(
    services: &Services,
    caller: &Principal,
    name: String,
    version: Option<String>,
    cancel: &CancellationToken,
) -> Result<PipInstalled, CallError> {
    let started = Instant::now();
    let request = InstallRequest {
        conversation: super::conversation(&services.files, caller)?,
        language: PYTHON.to_owned(),
        packages: vec![Asked {
            name: name.clone(),
            version,
        }],
        remove: Vec::new(),
    };
    match services.packages.install(&request, cancel).await {
        Ok(installed) => Ok(PipInstalled::done(installed, &name)),
        Err(error) if is_result(&error) => Ok(PipInstalled {
            success: false,
            message: error.to_string(),
            installed_version: None,
            installation_time: started.elapsed().as_secs_f64(),
            code: Some(error.as_str()),
        }),
        Err(error) => Err(CallError::from(error).naming(|about| argument(NAME, about))),
    }
}

impl PipInstalled {
    fn done(installed: Installed, name: &str) -> Self {
        // Extras are not part of a package's name.
        let name = name
            .trim()
            .split(['[', '=', '<', '>', '~', '!', ' '])
            .next();
        Self {
            installed_version: installed
                .version_of(name.unwrap_or_default())
                .map(str::to_owned),
            success: true,
            message: installed.message,
            installation_time: installed.duration.as_secs_f64(),
            code: None,
        }
    }
}

/// Whether the error is about the package and not about the call.
fn is_result(error: &PackagesError) -> bool {
    matches!(
        error,
        PackagesError::Blocked { .. }
            | PackagesError::NotFound(_)
            | PackagesError::Incompatible(_)
            | PackagesError::TooLarge(_)
            | PackagesError::Offline(_)
            | PackagesError::TimedOut(_)
    )
}
