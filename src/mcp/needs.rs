//! Which scopes of its caller's token a request needs. To see what there is, such as the tools, needs none: clients
//! keep lists.

use rmcp::model::{ClientRequest, JsonObject};

use super::{tools, toolset};
use crate::config::Toolset;
use crate::scope::{Scope, Scopes};

/// What reading resources needs, which are files.
pub(super) const RESOURCES: Scopes = Scopes::of(Scope::Files);
/// What tasks need, which are runs.
pub(super) const TASKS: Scopes = Scopes::of(Scope::Run);

/// What a request needs, whatever brought it.
pub(super) fn of_request(toolset: Toolset, request: &ClientRequest) -> Scopes {
    match request {
        ClientRequest::CallToolRequest(call) => {
            of_tool(toolset, &call.params.name, call.params.arguments.as_ref())
        }
        ClientRequest::ListResourcesRequest(_) | ClientRequest::ReadResourceRequest(_) => RESOURCES,
        ClientRequest::GetTaskRequest(_) | ClientRequest::CancelTaskRequest(_) => TASKS,
        _ => Scopes::NONE,
    }
}

/// What a call of a tool needs. One that there is not needs nothing, and is refused as such.
pub(super) fn of_tool(toolset: Toolset, name: &str, arguments: Option<&JsonObject>) -> Scopes {
    match toolset::find(toolset, name) {
        Some(adapter) => adapter.needs,
        None => tools::needs(name, arguments),
    }
}
