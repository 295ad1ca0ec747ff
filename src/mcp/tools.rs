//! The tools: one file each, with what the model reads about it, its arguments, and the use case it calls.

mod cancel_run;
mod delete_conversation;
mod get_run;
mod install_packages;
mod list_files;
mod list_runners;
mod outcome;
mod read_file;
mod run_code;
mod upload_file;

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CallToolResponse, CallToolResult, ErrorData, InputResponses, JsonObject, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::task::TaskTracker;

use super::caller::Caller;
use super::client::known::{Answers, sender};
use super::error::unknown_tool;
use super::{Client, toolset};
use crate::api::arguments::parse;
use crate::api::error::CallError;
use crate::api::outcome::RunOutcome;
use crate::api::schema;
use crate::audit::Origin;
use crate::config::Toolset;
use crate::conversation::{Conversation, ConversationIdError};
use crate::ledger::RunHandle;
use crate::principal::Tenant;
use crate::run::outcome::RunResult;
use crate::scope::{Scope, Scopes};
use crate::services::Services;

/// Older names of tools, accepted and not listed.
const ALIASES: &[(&str, &str)] = &[
    ("sandbox.run_code", run_code::NAME),
    ("sandbox.list_runners", list_runners::NAME),
];

/// What a tool may use and know.
pub(super) struct Call<'a> {
    pub(super) services: &'a Services,
    pub(super) toolset: Toolset,
    /// Calls that have no answer yet, and what is still to be done after one.
    pub(super) calls: &'a TaskTracker,
    pub(super) client: &'a Client,
    pub(super) caller: Caller,
    /// What its answer may have.
    pub(super) answers: Answers,
    pub(super) context: &'a RequestContext<RoleServer>,
    /// What a person has answered to earlier questions of this call, by their names.
    pub(super) inputs: InputResponses,
}

impl Call<'_> {
    /// Who calls, by this tool.
    pub(super) fn origin(&self, tool: &'static str) -> Origin {
        Origin {
            caller: self.caller.principal.clone(),
            via: Cow::Borrowed(tool),
            client: sender(self.context),
        }
    }

    /// The given conversation of the caller, or a new one.
    pub(super) fn conversation(
        &self,
        id: Option<&str>,
    ) -> Result<Conversation, ConversationIdError> {
        let (files, caller) = (&self.services.files, &self.caller.principal);
        match id {
            Some(id) => Ok(files.conversation(caller, id.parse()?)),
            None => Ok(files.new_conversation(caller)),
        }
    }

    /// Whether the client polls for the end of long calls itself.
    fn supports_tasks(&self) -> bool {
        let capabilities = self.context.client_capabilities();
        capabilities.is_some_and(|capabilities| capabilities.supports_tasks())
    }
}

/// All tools, as `tools/list` gives them to a tenant.
pub(super) fn list(services: &Services, tenant: &Tenant) -> Vec<Tool> {
    vec![
        cancel_run::tool(),
        delete_conversation::tool(),
        get_run::tool(&services.limits),
        install_packages::tool(&services.packages),
        list_files::tool(),
        list_runners::tool(),
        read_file::tool(),
        run_code::tool(services, tenant),
        upload_file::tool(&services.files),
    ]
}

/// The scopes that a call of a tool needs.
pub(super) fn needs(name: &str, arguments: Option<&JsonObject>) -> Scopes {
    match of_alias(name) {
        cancel_run::NAME | get_run::NAME => Scopes::of(Scope::Run),
        delete_conversation::NAME | list_files::NAME | read_file::NAME | upload_file::NAME => {
            Scopes::of(Scope::Files)
        }
        install_packages::NAME => Scopes::of(Scope::Install),
        run_code::NAME => run_code::needs(arguments),
        // That of languages says nothing of anybody, and the others are none.
        _ => Scopes::NONE,
    }
}

fn of_alias(name: &str) -> &str {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    alias.map_or(name, |(_, name)| name)
}

/// Calls a tool by name.
///
/// # Errors
/// There is no such tool, or the server is broken. What the model can act on is a result.
pub(super) async fn call(
    call: &Call<'_>,
    name: &str,
    arguments: JsonObject,
) -> Result<CallToolResponse, ErrorData> {
    let (services, caller) = (call.services, &call.caller.principal);
    let files = &services.files;
    let result = match of_alias(name) {
        cancel_run::NAME => cancel_run::call(call, arguments).await,
        delete_conversation::NAME => delete_conversation::call(call, arguments).await,
        get_run::NAME => get_run::call(call, arguments).await,
        install_packages::NAME => Box::pin(install_packages::call(call, arguments)).await,
        list_files::NAME => list_files::call(files, caller, arguments).await,
        list_runners::NAME => Ok(list_runners::call(services, caller.tenant())),
        read_file::NAME => read_file::call(files, caller, arguments).await,
        run_code::NAME => {
            return match run_code::call(call, arguments).await {
                Ok(response) => Ok(response),
                Err(error) => call.caller.refuse(error).map(Into::into),
            };
        }
        upload_file::NAME => upload_file::call(call, arguments).await,
        unknown => {
            let listed = toolset::listed(call.toolset, services, caller.tenant());
            return Err(unknown_tool(unknown, &listed));
        }
    };
    let answer = result.or_else(|error| call.caller.refuse(error));
    answer.map(Into::into)
}

/// The answer of `run_code` for a run that has ended, as a task gives it.
pub(super) async fn ended(
    call: &Call<'_>,
    run: &RunHandle,
    result: &RunResult,
) -> Result<CallToolResult, ErrorData> {
    match result.as_ref() {
        Ok(rendered) => Ok(outcome::answer(call, run, &RunOutcome::ended(run, rendered)).await),
        Err(error) => CallError::from(error).into_result(),
    }
}

/// The same tool without one of its arguments.
fn without_argument(mut tool: Tool, name: &str) -> Tool {
    let mut schema = JsonObject::clone(&tool.input_schema);
    if let Some(properties) = schema
        .get_mut("properties")
        .and_then(|it| it.as_object_mut())
    {
        properties.shift_remove(name);
    }
    tool.input_schema = Arc::new(schema);
    tool
}

/// A tool with schemas made from its types.
pub(super) fn define<Arguments, Output>(
    name: &'static str,
    title: &str,
    description: String,
    mut annotations: ToolAnnotations,
) -> Tool
where
    Arguments: JsonSchema,
    Output: JsonSchema,
{
    // Older clients look for it there.
    annotations.title = Some(title.to_owned());
    Tool::new(name, description, schema::input::<Arguments>())
        .with_title(title)
        .with_raw_output_schema(Arc::new(schema::output::<Output>()))
        .with_annotations(annotations)
}

/// A result as one JSON object, both structured and as the first text block.
pub(super) fn structured<T: Serialize>(value: &T) -> CallToolResult {
    // Our own types of strings, numbers and lists always become JSON.
    CallToolResult::structured(serde_json::to_value(value).unwrap_or_default())
}
