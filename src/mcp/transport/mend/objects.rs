//! Messages whose parameters, arguments or `_meta` are a list or JSON in a string, where rmcp takes objects only. Some
//! clients write "no arguments" as `[]`, and some pass on the text that a model wrote. Pure.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::json;

/// The place of the parameters in a message.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    params: &'a RawValue,
}

/// The places in parameters that hold an object.
#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// The arguments of a tool, as they are written.
pub(in crate::mcp::transport) fn arguments(params: &RawValue) -> Option<&RawValue> {
    Params::read(params.get())?.arguments
}

impl<'a> Params<'a> {
    /// Reads the places in an object. A list of the fields' values would be taken for them.
    fn read(params: &'a str) -> Option<Self> {
        let is_object = params.starts_with('{');
        is_object.then(|| serde_json::from_str(params).ok())?
    }
}

/// The same message with objects in these places. One that has them already, or something else, is returned as it is.
pub(in crate::mcp::transport) fn mended(message: &[u8]) -> Cow<'_, [u8]> {
    mend(message).map_or(Cow::Borrowed(message), Cow::Owned)
}

fn mend(message: &[u8]) -> Option<Vec<u8>> {
    let message = std::str::from_utf8(message).ok()?;
    let Message { params } = serde_json::from_str(message).ok()?;
    let as_object = object(params.get());
    let written = as_object.as_deref().unwrap_or(params).get();
    let with_meta = with_object(written, |params| params.meta);
    let written = with_meta.as_deref().unwrap_or(written);
    let with_arguments = with_object(written, |params| params.arguments);
    let mended = with_arguments.as_deref().unwrap_or(written);
    if mended == params.get() {
        return None;
    }
    Some(replaced(message, params.get(), mended)?.into_bytes())
}

/// The parameters with an object in a place, if there was something else that means one.
fn with_object(params: &str, find: fn(Params<'_>) -> Option<&RawValue>) -> Option<String> {
    let written = find(Params::read(params)?)?;
    let object = object(written.get())?;
    replaced(params, written.get(), object.get())
}

/// A text with another part in the place of one of its own. All others stay as they were written, so that what is wrong
/// with them is still seen.
fn replaced(whole: &str, part: &str, other: &str) -> Option<String> {
    // Where it is, since equal parts may be in several places.
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let (before, after) = (whole.get(..start)?, whole.get(start + part.len()..)?);
    Some([before, other, after].concat())
}

/// The object that is meant where there is none: `[]`, `""` and `"null"` are empty ones, and one in a list or in a text
/// is the one.
fn object(written: &str) -> Option<Box<RawValue>> {
    let raw = |text: &str| RawValue::from_string(text.trim().to_owned()).ok();
    if written.starts_with('[') {
        let list: Vec<&RawValue> = serde_json::from_str(written).ok()?;
        return match list.as_slice() {
            [] => raw("{}"),
            [one] if one.get().starts_with('{') => raw(one.get()),
            _ => None,
        };
    }
    if !written.starts_with('"') {
        return None;
    }
    let text: String = serde_json::from_str(written).ok()?;
    if matches!(text.trim(), "" | "null" | "None") {
        return raw("{}");
    }
    let json = json::within(&text)?;
    match json.trim() {
        list if list.starts_with('[') => object(list),
        object => raw(object),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(message: &Value) -> Value {
        serde_json::from_slice(&mended(message.to_string().as_bytes())).unwrap()
    }

    #[test]
    fn an_object_is_put_where_one_is_meant() {
        let call = |params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let named = |arguments: Value| call(json!({ "name": "run_code", "arguments": arguments }));
        for (written, meant) in [
            (named(json!([])), named(json!({}))),
            (named(json!("")), named(json!({}))),
            (named(json!("null")), named(json!({}))),
            (
                named(json!(" {\"code\": \"1\"}\n")),
                named(json!({ "code": "1" })),
            ),
            (
                named(json!("{'code': 'a', 'stateful': True}")),
                named(json!({ "code": "a", "stateful": true })),
            ),
            (
                named(json!(json!({ "code": "1" }).to_string()).to_string().into()),
                named(json!({ "code": "1" })),
            ),
            (
                named(json!([{ "code": "1" }])),
                named(json!({ "code": "1" })),
            ),
            (
                named(json!("[{\"code\": \"1\"}]")),
                named(json!({ "code": "1" })),
            ),
            (
                call(json!({ "_meta": [], "arguments": [] })),
                call(json!({ "_meta": {}, "arguments": {} })),
            ),
            (call(json!([])), call(json!({}))),
            (
                call(json!("{\"name\":\"run_code\",\"arguments\":\"{}\"}")),
                named(json!({})),
            ),
        ] {
            assert_eq!(read(&written), meant, "{written}");
        }
    }

    #[test]
    fn everything_else_stays_byte_by_byte() {
        for message in [
            r#"{ "params" : {"arguments": {"code": "[]"}} , "id":1.0 }"#,
            r#"{"params":{"arguments":null}}"#,
            r#"{"params":{"arguments":["code"]}}"#,
            r#"{"params":{"arguments":"print(1)"}}"#,
            r#"{"params":{"arguments":"{"}}"#,
            r#"{"params":{"arguments":[{},{}]}}"#,
            r#"{"params":{"_meta":[1]}}"#,
            r#"{"params":[1]}"#,
            r#"{"params":[[],[]]}"#,
            r#"{"params":[],"params":{}}"#,
            r#"{"params":{"arguments":"{}","arguments":{}}}"#,
            r#"[{"params":[]}]"#,
            "{",
            "",
        ] {
            assert_eq!(mended(message.as_bytes()), message.as_bytes());
        }
    }

    #[test]
    fn what_is_beside_it_stays() {
        let message = br#"{"id":1, "id":2,"x":"[]","params":[] }"#;
        assert_eq!(
            *mended(message),
            *br#"{"id":1, "id":2,"x":"[]","params":{} }"#
        );
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_message(message in "(\\{|\\}|\\[|\\]|\"|:|,|params|arguments|\\\\|\\PC){0,30}") {
            let once = mended(message.as_bytes()).into_owned();
            prop_assert_eq!(mended(&once).into_owned(), once);
        }
    }
}
