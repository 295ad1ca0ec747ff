//! What a client sends on a stream of its own before it has said who it is.
//!
//! rmcp answers a request that comes too early in words about `_meta`, which only the newest revision has, and gives
//! the stream up at any other message. Here such a request is told to send `initialize` first. The rest is passed over:
//! it is about nothing that was begun.

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, GetMeta as _, JsonRpcMessage, ProtocolVersion,
    RequestId, ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;

const TOO_EARLY: &str = "nothing but ping may come before initialize: send an initialize request first, then this again";

/// A transport on which nothing but a greeting comes first.
pub(super) struct Greeted<T> {
    inner: T,
    greeted: bool,
}

/// What becomes of a message that comes before a greeting.
#[derive(Debug, PartialEq, Eq)]
enum Early {
    /// It is one.
    Greeting,
    /// rmcp answers it.
    Answered,
    Refused(RequestId),
    PassedOver,
}

impl<T> Greeted<T> {
    pub(super) fn new(inner: T) -> Self {
        Self {
            inner,
            greeted: false,
        }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Greeted<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let message = self.inner.receive().await?;
            if self.greeted {
                return Some(message);
            }
            match early(&message) {
                Early::Greeting => {
                    self.greeted = true;
                    return Some(message);
                }
                Early::Answered => return Some(message),
                Early::Refused(id) => {
                    let error = ErrorData::invalid_request(TOO_EARLY, None);
                    let refusal = ServerJsonRpcMessage::error(error, Some(id));
                    self.inner.send(refusal).await.ok()?;
                }
                Early::PassedOver => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

fn early(message: &ClientJsonRpcMessage) -> Early {
    let JsonRpcMessage::Request(request) = message else {
        return Early::PassedOver;
    };
    let meta = request.request.get_meta();
    match &request.request {
        ClientRequest::InitializeRequest(_) => Early::Greeting,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => Early::Answered,
        _ => match meta.protocol_version() {
            // In the newest revision each request says who sends it.
            Some(revision) => {
                let newest = ProtocolVersion::V_2026_07_28;
                let is_whole = meta.missing_required_keys(&newest).is_empty();
                let is_known = ProtocolVersion::KNOWN_VERSIONS.contains(&revision);
                if is_whole && is_known {
                    Early::Greeting
                } else {
                    Early::Answered
                }
            }
            None => Early::Refused(request.id.clone()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_greeting_comes_first() {
        let whole = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
        let unknown = json!({ "io.modelcontextprotocol/protocolVersion": "2099-01-01", "io.modelcontextprotocol/clientCapabilities": {} });
        let half = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
        let greeting = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" } });
        let meta = |meta| json!({ "_meta": meta });
        let refused = || Early::Refused(RequestId::Number(1));
        for (method, params, becomes) in [
            ("initialize", greeting, Early::Greeting),
            ("ping", json!({}), Early::Answered),
            ("server/discover", json!({}), Early::Answered),
            ("tools/list", json!({}), refused()),
            ("nothing/here", json!({}), refused()),
            ("tools/list", meta(whole), Early::Greeting),
            ("tools/list", meta(half), Early::Answered),
            ("tools/list", meta(unknown), Early::Answered),
        ] {
            let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            let message: ClientJsonRpcMessage = serde_json::from_value(message).unwrap();
            assert_eq!(early(&message), becomes, "{method} {params}");
        }
        for message in [
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
        ] {
            let message: ClientJsonRpcMessage = serde_json::from_value(message).unwrap();
            assert_eq!(early(&message), Early::PassedOver);
        }
    }
}
