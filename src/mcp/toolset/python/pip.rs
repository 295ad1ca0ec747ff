//! `pip_install`: one package for the programs of a caller.

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::arguments::parse;
use crate::api::error::CallError;
use crate::api::names::INSTALL;
use crate::api::python::pip::{PipInstalled, install};
use crate::mcp::live::with_signs_of_life;
use crate::mcp::tools::{Call, define, structured};
use crate::mcp::toolset::check_language;
use crate::services::Services;

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
        INSTALL,
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
    } = parse(INSTALL, arguments)?;
    check_language(INSTALL, language.as_deref(), call.services)?;
    let (services, origin) = (call.services, call.origin(INSTALL));
    let install = Box::pin(install(
        services,
        &origin,
        package,
        version,
        &call.context.ct,
    ));
    let installed = with_signs_of_life(install, call.context, &call.caller).await?;
    Ok(structured(&installed))
}
