//! Messages whose parameters or arguments are an empty list or JSON in a string, where rmcp takes objects only. Some
//! clients write "no arguments" as `[]`, and some pass on the text that a model wrote. Pure.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The place of the parameters in a message.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    params: &'a RawValue,
}

/// The place of a tool's arguments in its parameters.
#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: &'a RawValue,
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
    let mended = with_arguments(written).or_else(|| as_object.as_deref().map(text))?;
    Some(replaced(message, params.get(), &mended)?.into_bytes())
}

/// The parameters with an object as their arguments, if these were not one.
fn with_arguments(params: &str) -> Option<String> {
    let Params { arguments } = serde_json::from_str(params).ok()?;
    let object = object(arguments.get())?;
    replaced(params, arguments.get(), object.get())
}

fn text(value: &RawValue) -> String {
    value.get().to_owned()
}

/// A text with another part in the place of one of its own. All others stay as they were written, so that what is wrong
/// with them is still seen.
fn replaced(whole: &str, part: &str, other: &str) -> Option<String> {
    // Where it is, since equal parts may be in several places.
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let (before, after) = (whole.get(..start)?, whole.get(start + part.len()..)?);
    Some([before, other, after].concat())
}

/// The object that is meant where there is none: `[]`, `""` and `"null"` are empty ones.
fn object(written: &str) -> Option<Box<RawValue>> {
    if !written.starts_with(['[', '"']) {
        return None;
    }
    let nothing = || RawValue::from_string("{}".to_owned()).ok();
    match serde_json::from_str(written).ok()? {
        Value::Array(list) if list.is_empty() => nothing(),
        Value::String(text) if matches!(text.trim(), "" | "null" | "[]") => nothing(),
        // Only the outer form is read here: the text itself is the object.
        Value::String(text) if text.trim_start().starts_with('{') => {
            RawValue::from_string(text.trim().to_owned()).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

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
            r#"{"params":[1]}"#,
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
