//! The official Rust client logs in by itself, given nothing but an address: it finds out where, makes itself known
//! there, sends a person, and gets another token when its own is refused in mid-session.
//!
//! `MCP_URL`, `MCP_API_TOKEN` and `PERSON`, a program that logs in at an address, are in the environment, and
//! `CLIENT_DOCUMENT` if the client is to be known by the document at that address.
#![expect(clippy::unwrap_used, reason = "a check that cannot go on fails")]
#![expect(
    clippy::disallowed_methods,
    reason = "this is no part of the server, and has no other settings"
)]

use std::env;

use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, ClientConfig};
use rmcp::transport::auth::OAuthState;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{
    AuthClient, AuthorizationManager, AuthorizationRequest, CredentialStore as _,
    InMemoryCredentialStore, StreamableHttpClientTransport,
};
use serde_json::json;
use tokio::process::Command;

const CALLBACK: &str = "http://127.0.0.1:1/callback";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = format!("{}/mcp", env::var("MCP_URL").unwrap());
    let kept = InMemoryCredentialStore::new();
    let manager = logged_in(&url, kept.clone()).await;
    let http = AuthClient::new(reqwest::Client::new(), manager);
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let transport = StreamableHttpClientTransport::with_client(http, config);
    let client = ClientConfig::default().serve(transport).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "run_code"));

    let first = access_token(&kept, "").await;
    let spoilt = access_token(&kept, "x").await;
    let arguments = json!({ "language": "python", "code": "print(6 * 7)" });
    let call = CallToolRequestParams::new("run_code")
        .with_arguments(arguments.as_object().unwrap().clone());
    let result = client.call_tool(call).await.unwrap();
    assert_eq!(result.structured_content.unwrap()["stdout"], "42\n");
    let second = access_token(&kept, "").await;
    assert!(second != first && second != spoilt);
    client.cancel().await.unwrap();
}

/// What has an access token, which is kept in `kept`.
async fn logged_in(url: &str, kept: InMemoryCredentialStore) -> AuthorizationManager {
    let mut state = OAuthState::new(url, None).await.unwrap();
    if let OAuthState::Unauthorized(manager) = &mut state {
        manager.set_credential_store(kept.clone());
    }
    let mut request = AuthorizationRequest::new(CALLBACK).with_client_name("test");
    let document = env::var("CLIENT_DOCUMENT").ok();
    if let Some(address) = &document {
        request = request.with_client_metadata_url(address);
    }
    state.start_authorization(request).await.unwrap();
    let address = state.get_authorization_url().await.unwrap();
    let mut person = Command::new(env::var("PERSON").unwrap());
    let seen = person.arg(address).output().await.unwrap();
    assert!(seen.status.success(), "{seen:?}");
    let sent_back = String::from_utf8(seen.stdout).unwrap();
    state.handle_callback_url(sent_back.trim()).await.unwrap();
    let client = kept.load().await.unwrap().unwrap().client_id;
    assert!(document.is_none_or(|address| address == client));
    state.into_authorization_manager().unwrap()
}

/// The access token that is kept, to which something was added first.
async fn access_token(kept: &InMemoryCredentialStore, added: &str) -> String {
    let credentials = kept.load().await.unwrap().unwrap();
    let mut text = serde_json::to_value(credentials).unwrap();
    let token = &mut text["token_response"]["access_token"];
    let changed = format!("{}{added}", token.as_str().unwrap());
    *token = changed.clone().into();
    kept.save(serde_json::from_value(text).unwrap())
        .await
        .unwrap();
    changed
}
