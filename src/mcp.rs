//! The Model Context Protocol: what clients see, and which use case each tool calls.
//!
//! rmcp speaks the protocol. Our parts are the tools, the [`transport`] in front of rmcp, and the table of errors.

mod asking;
mod caller;
mod client;
mod error;
mod live;
mod logs;
mod needs;
mod resources;
mod tasks;
pub mod tools;
pub(crate) mod toolset;
pub mod transport;
mod unanswered;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use rmcp::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientRequest,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    InputResponses, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SubscribeRequestParams, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer};
use tokio_util::task::TaskTracker;
use tracing::error;

use self::caller::Caller;
use self::client::Client;
use self::client::known::Answers;
use self::tools::Call;
use crate::config::{AnswerConfig, Toolset};
use crate::scope::Scopes;
use crate::services::Services;

/// What a client's model is told once.
const INSTRUCTIONS: &str = "Runs code in isolated containers. Give the same conversationId to upload_file, run_code and \
    list_files so that they share the directory /data; leave it out of the first call and one is made for you. Files \
    that a program writes to /data come back as links, and install_packages adds libraries. Variables are kept between \
    runs with stateful: true only.";

/// Why nobody can subscribe to a file.
const NO_SUBSCRIPTIONS: &str = "changes of resources are not announced, so read the resource again";

/// Answers the requests of one client.
#[derive(Clone, Debug)]
pub struct McpHandler {
    services: Services,
    client: Arc<Client>,
    /// Calls that have no answer yet.
    calls: TaskTracker,
    toolset: Toolset,
    answers: AnswerConfig,
}

impl McpHandler {
    /// A handler that calls the use cases. Each call is on `calls` until it has its answer.
    pub fn new(
        services: Services,
        calls: TaskTracker,
        toolset: Toolset,
        answers: AnswerConfig,
    ) -> Self {
        Self {
            services,
            client: Arc::default(),
            calls,
            toolset,
            answers,
        }
    }

    /// A handler for a new client: what is remembered about one client is not for others.
    #[must_use]
    pub fn for_one_client(&self) -> Self {
        Self {
            client: Arc::default(),
            ..self.clone()
        }
    }

    /// The same for one whose clients see this set of tools.
    fn speaking(&self, toolset: Toolset) -> Self {
        Self {
            toolset,
            ..self.for_one_client()
        }
    }

    /// The scopes that a request needs.
    fn needs(&self, request: &ClientRequest) -> Scopes {
        needs::of_request(self.toolset, request)
    }

    fn call<'a>(&'a self, context: &'a RequestContext<RoleServer>) -> Result<Call<'a>, ErrorData> {
        Ok(Call {
            services: &self.services,
            toolset: self.toolset,
            calls: &self.calls,
            client: &self.client,
            caller: Caller::of(context)?,
            answers: Answers::to(self.answers, context),
            context,
            inputs: InputResponses::default(),
        })
    }
}

/// The answer to a call, even if it panics: rmcp would leave such a request unanswered forever.
async fn catch_panic<T>(
    tool: &str,
    call: impl Future<Output = Result<T, ErrorData>>,
) -> Result<T, ErrorData> {
    AssertUnwindSafe(call)
        .catch_unwind()
        .await
        .unwrap_or_else(|_panic| {
            error!(tool, "a tool panicked");
            Err(error::internal_error())
        })
}

impl ServerHandler for McpHandler {
    #[expect(deprecated, reason = "clients of older revisions ask for logs")]
    fn get_info(&self) -> ServerConfig {
        let name = toolset::server_name(self.toolset).unwrap_or("mcp-code-sandbox");
        let server = Implementation::new(name, env!("CARGO_PKG_VERSION"))
            .with_title("Code sandbox")
            .with_description(env!("CARGO_PKG_DESCRIPTION"));
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .enable_completions()
            .enable_logging()
            .enable_tasks();
        ServerConfig::new(capabilities.build())
            .with_server_info(server)
            .with_instructions(toolset::instructions(self.toolset).unwrap_or(INSTRUCTIONS))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = Caller::of(&context)?.principal;
        let mut tools = toolset::listed(self.toolset, &self.services, caller.tenant());
        if !Answers::to(self.answers, &context).structured_content {
            for tool in &mut tools {
                tool.output_schema = None;
            }
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, _name: &str) -> Option<Tool> {
        // Arguments are checked by the tools themselves, in words a model can act on.
        None
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _unanswered = self.calls.token();
        let mut call = self.call(&context)?;
        call.inputs = request.input_responses.unwrap_or_default();
        let rights = call.caller.rights;
        // Most may do everything, and nothing has to be read for them.
        if !rights.is_all() {
            let needed = needs::of_tool(self.toolset, &request.name, request.arguments.as_ref());
            if let Err(forbidden) = rights.check(needed) {
                return call.caller.refuse(forbidden.into()).map(Into::into);
            }
        }
        let arguments = request.arguments.unwrap_or_default();
        call.caller.begun.note();
        let name = &request.name;
        let answer = async {
            match toolset::find(self.toolset, name) {
                Some(adapter) => (adapter.call)(&call, arguments).await.map(Into::into),
                None => tools::call(&call, name, arguments).await,
            }
        };
        // Boxed, since all tools together are a large future, and so would be every future that holds it.
        let mut answer = catch_panic(name, Box::pin(answer)).await?;
        if let CallToolResponse::Complete(result) = &mut answer {
            call.answers.trim(result);
        }
        Ok(answer)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let caller = Caller::of(&context)?.may(needs::RESOURCES)?.principal;
        let list = resources::list(&self.services.files, &caller, &self.client, &context);
        let list = catch_panic("resources/list", list).await?;
        Ok(list.with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let caller = Caller::of(&context)?.may(needs::RESOURCES)?.principal;
        let read = resources::read(&self.services.files, &caller, &request.uri);
        let read = catch_panic("resources/read", read).await?;
        Ok(ReadResourceResponse::Complete(
            read.with_cache_scope(CacheScope::Private),
        ))
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        // There are none. Clients ask anyway.
        Ok(ListPromptsResult::with_all_items(Vec::new()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name: String = request.name.chars().take(64).collect();
        Err(ErrorData::invalid_params(
            format!("unknown prompt: {name}"),
            None,
        ))
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        // Ids of conversations are secrets, so there is nothing to suggest.
        Ok(CompleteResult::default())
    }

    #[expect(deprecated, reason = "clients of older revisions ask for it")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.client.set_log_level(request.level);
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let mut call = self.call(&context)?;
        call.caller = call.caller.may(needs::TASKS)?;
        let run = self
            .services
            .ledger
            .find(&call.caller.principal, &request.task_id);
        let run = run.ok_or_else(|| tasks::unknown(&request.task_id))?;
        let mut result = match run.result() {
            Some(result) => {
                Some(catch_panic("tasks/get", tools::ended(&call, &run, &result)).await)
            }
            None => None,
        };
        if let Some(Ok(result)) = &mut result {
            call.answers.trim(result);
        }
        Ok(GetTaskResult::new(tasks::detailed(&run, result)))
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let caller = Caller::of(&context)?.may(needs::TASKS)?;
        let run = self
            .services
            .ledger
            .find(&caller.principal, &request.task_id);
        run.ok_or_else(|| tasks::unknown(&request.task_id))?
            .cancel();
        Ok(())
    }

    async fn update_task(
        &self,
        _request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Err(unanswered::no_method(
            "tasks/update",
            "tasks ask for no input here",
        ))
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Err(unanswered::no_method(
            "resources/subscribe",
            NO_SUBSCRIPTIONS,
        ))
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Err(unanswered::no_method(
            "resources/unsubscribe",
            NO_SUBSCRIPTIONS,
        ))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let stateless = context.meta.protocol_version().is_some();
        Err(unanswered::why(&request, stateless))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_internal_error() {
        let call = async { panic!("a mistake of ours") };
        let error = catch_panic::<()>("run_code", call).await.unwrap_err();
        insta::assert_json_snapshot!(error, @r#"
        {
          "code": -32603,
          "message": "the server made a mistake: its log has the details"
        }
        "#);
    }
}
