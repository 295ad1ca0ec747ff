//! The client of the Rust SDK over a real socket.

use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, ClientConfig};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::json;

use crate::support::{TOKEN, TestApp};

#[tokio::test]
async fn the_rust_client_runs_code() {
    let app = TestApp::on_fake().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = app.router.clone();
    let serve = axum::serve(listener, router).into_future();
    let client = async {
        let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(TOKEN);
        let transport = StreamableHttpClientTransport::from_config(config);
        let client = ClientConfig::default().serve(transport).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        assert!(tools.iter().any(|tool| tool.name == "run_code"));
        let arguments = json!({ "language": "shell", "code": "echo hello" });
        let call = CallToolRequestParams::new("run_code")
            .with_arguments(arguments.as_object().unwrap().clone());
        let result = client.call_tool(call).await.unwrap();
        assert_eq!(result.structured_content.unwrap()["stdout"], "hello\n");
        client.cancel().await.unwrap();
    };
    tokio::select! {
        _ = serve => panic!("the server ended"),
        () = client => {}
    }
}
