//! Mends messages that are not quite right and mean one thing all the same. Each function is one leniency.

mod objects;

use rmcp::model::InitializeRequestParams;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use self::objects::arguments;
pub(super) use self::objects::mended as with_objects;
use super::envelope::{EnvelopeError, Fields};
use super::message::names_revision;
use crate::api::json;

/// What a client is called that does not say its name or its version.
const UNNAMED: &str = "unknown";

/// Longest piece of a client's text in a message.
const SHOWN: usize = 64;

/// Parameters that nothing mends, and what is wrong with them.
#[derive(Debug)]
pub(super) struct Unmended(String);

impl Unmended {
    pub(super) fn of(self, id: Option<Value>) -> EnvelopeError {
        EnvelopeError::Params { id, reason: self.0 }
    }
}

/// Takes `"id": null` from a notification, which has no id. Returns whether it had one.
pub(super) fn nameless(fields: &mut Fields<'_>) -> bool {
    let notifies = fields
        .method
        .is_some_and(|method| method.get().starts_with("\"notifications/"));
    let is_null = fields.id.is_some_and(|id| id.get() == "null");
    if notifies && is_null {
        fields.id = None;
    }
    notifies && is_null
}

/// The parameters of a method as they should have been; `None` if there is nothing to mend.
pub(super) fn params(
    method: &str,
    params: Option<&RawValue>,
) -> Result<Option<Box<RawValue>>, Unmended> {
    match (method, params) {
        ("initialize", Some(params)) => greeting(params),
        ("initialize", None) => Err(Unmended(
            "initialize: params is missing: it needs protocolVersion".into(),
        )),
        ("tools/call", Some(params)) => match arguments(params).map(RawValue::get) {
            Some(arguments) => call(arguments).map(|()| None),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Checks that the arguments of a tool are an object in which every key has one value.
fn call(arguments: &str) -> Result<(), Unmended> {
    if !arguments.starts_with('{') {
        return Err(Unmended(
            "tools/call: params.arguments must be one object with the arguments by name, such as \
             {\"code\": \"print(6 * 7)\"}"
                .into(),
        ));
    }
    match json::repeated_key(arguments) {
        Some(key) => {
            let key: String = key.chars().take(SHOWN).collect();
            Err(Unmended(format!(
                "tools/call: params.arguments has {key:?} more than once in one object: give it once"
            )))
        }
        None => Ok(()),
    }
}

/// The parameters of `initialize`: clients leave out what they have nothing to say about.
fn greeting(raw: &RawValue) -> Result<Option<Box<RawValue>>, Unmended> {
    let given: Value = serde_json::from_str(raw.get()).map_err(|error| wrong("", &error))?;
    // In the newest revision, there is no such method, and its handler says so.
    if names_revision(&given) {
        return Ok(None);
    }
    let mut mended = given.clone();
    if let Some(params) = mended.as_object_mut() {
        fill(params, "capabilities", json!({}));
        fill(params, "clientInfo", json!({}));
        if let Some(client) = params.get_mut("clientInfo").and_then(Value::as_object_mut) {
            fill(client, "name", UNNAMED.into());
            fill(client, "version", UNNAMED.into());
            if let Some(version) = client
                .get_mut("version")
                .filter(|version| version.is_number())
            {
                *version = version.to_string().into();
            }
        }
    }
    let fits: Result<InitializeRequestParams, _> = serde_path_to_error::deserialize(&mended);
    fits.map_err(|error| wrong(&error.path().to_string(), error.inner()))?;
    if mended == given {
        return Ok(None);
    }
    to_raw_value(&mended)
        .map(Some)
        .map_err(|error| wrong("", &error))
}

/// Sets a field that is missing or null. An empty list is what some languages make of an empty object.
fn fill(object: &mut Map<String, Value>, field: &str, value: Value) {
    let is_absent = object.get(field).is_none_or(|given| {
        given.is_null() || (value.is_object() && given.as_array().is_some_and(Vec::is_empty))
    });
    if is_absent {
        object.insert(field.to_owned(), value);
    }
}

fn wrong(path: &str, error: &serde_json::Error) -> Unmended {
    Unmended(match path {
        "" | "." => format!("initialize: params: {error}"),
        _ => format!("initialize: params.{path}: {error}"),
    })
}
