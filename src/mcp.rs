//! The Model Context Protocol: what clients are told, and which use case each tool calls.
//!
//! rmcp speaks the protocol. Ours are the tools, the [`transport`] in front of rmcp, and the table of errors.

mod error;
pub mod tools;
pub mod transport;

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use tracing::error;

use crate::run::Runs;

/// What a client's model is told once.
const INSTRUCTIONS: &str = "Runs code in isolated containers. Give the same conversationId to upload_file, run_code and \
    list_files so that they share the directory /data; leave it out of the first call and one is made for you. Files \
    that a program writes to /data come back as links. Nothing else is kept between runs.";

/// Methods of the protocol whose parameters were not understood, as opposed to methods that do not exist.
const KNOWN_METHODS: &[&str] = &[
    "tools/call",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "server/discover",
];
/// Methods that the stateless revision has no more: for it they do not exist, however they look.
const REMOVED_METHODS: &[&str] = &["initialize", "ping", "logging/setLevel"];

/// Answers the requests of one client.
#[derive(Clone, Debug)]
pub struct McpHandler(Runs);

impl McpHandler {
    /// A handler over the use cases.
    pub fn new(runs: Runs) -> Self {
        Self(runs)
    }
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("mcp-code-sandbox", env!("CARGO_PKG_VERSION"))
            .with_title("Code sandbox")
            .with_description(env!("CARGO_PKG_DESCRIPTION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(server)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list(&self.0)))
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
        let arguments = request.arguments.unwrap_or_default();
        // rmcp leaves a request unanswered for ever when its handler panics.
        let call = AssertUnwindSafe(tools::call(&self.0, &request.name, arguments, &context.ct))
            .catch_unwind();
        match call.await {
            Ok(Some(result)) => Ok(result.into()),
            Ok(None) => Err(ErrorData::invalid_params(
                format!("unknown tool: {}", request.name),
                None,
            )),
            Err(_panic) => {
                error!(tool = %request.name, "a tool panicked");
                Err(ErrorData::internal_error(
                    "the server made a mistake: its log has the details",
                    None,
                ))
            }
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        let stateless = context.meta.protocol_version().is_some();
        // rmcp hands over a known method here when its parameters do not fit.
        let known = KNOWN_METHODS.contains(&method.as_str())
            || (!stateless && REMOVED_METHODS.contains(&method.as_str()));
        let (code, message) = if known {
            (
                ErrorCode::INVALID_PARAMS,
                format!("the parameters of {method} are missing or malformed"),
            )
        } else {
            (
                ErrorCode::METHOD_NOT_FOUND,
                format!("there is no method {method}"),
            )
        };
        Err(ErrorData::new(code, message, None))
    }
}
