//! Any body is either accepted or refused; one that is accepted is a JSON-RPC 2.0 object.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_code_sandbox::mcp::transport::has_form_of_a_message;

fuzz_target!(|body: &[u8]| {
    if has_form_of_a_message(body) {
        let message: serde_json::Value = serde_json::from_slice(body).expect("it is JSON");
        assert_eq!(message["jsonrpc"], "2.0");
    }
});
