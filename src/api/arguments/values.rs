//! Values in the form that a schema asks for, from other ways to write the same. Pure: a value without one meaning is
//! returned as it is, and is then refused for its form, or it is refused here if there is more to say.

mod map;
mod packages;

use std::time::Duration;

use serde_json::{Number, Value};

use super::shape::{Property, Shape};
use crate::api::json::{self, Repeated};

/// Texts that are taken as they are, even if they are numbers: any change might be meant.
const VERBATIM: &[&str] = &["code", "content", "content_base64"];
/// Times, which some write with their unit.
const SECONDS: &[&str] = &["timeout", "timeoutSeconds", "waitSeconds"];
/// Ids of conversations. One that many chats write by mistake would be one conversation for all of them.
const IDS: &[&str] = &["conversationId", "session_id"];
/// What programs write for a value that is not there.
const NOTHING: &[&str] = &["", "null", "none", "undefined"];
const YES: &[&str] = &["true", "yes", "y", "on", "1"];
const NO: &[&str] = &["false", "no", "n", "off", "0"];
/// Lists whose entries are written in one text too.
const PACKAGES: &[&str] = &["packages", "remove"];
/// Lists of names without spaces and commas, which some write in one text.
const NAMES: &[&str] = &["hosts", "secrets"];
/// Versions of packages that say that any will do.
const ANY_VERSION: &[&str] = &["", "*", "latest"];

/// The value in the form of its argument.
///
/// # Errors
/// What is wrong with it, beginning with the argument's name.
pub(super) fn fitted(property: &Property, value: Value) -> Result<Value, String> {
    let text = match &value {
        Value::String(text) => Some(text.as_str()),
        _ => None,
    };
    let other = match (&property.shape, text) {
        (Shape::Text, _) => text_of(property, &value),
        (Shape::Choice(choices), Some(text)) => choice(choices, text),
        (Shape::Whole, Some(text)) => number(text),
        (Shape::Number, Some(text)) if SECONDS.contains(&property.name.as_str()) => {
            number(text).or_else(|| seconds(text))
        }
        (Shape::Number, Some(text)) => number(text),
        (Shape::Flag, _) => flag(&value),
        (Shape::List, _) if is_left_out(property, &value) => None,
        (Shape::List, _) if PACKAGES.contains(&property.name.as_str()) => {
            packages::fitted(&value).map_err(|error| in_words(property, &error))?
        }
        (Shape::List, Some(text)) if NAMES.contains(&property.name.as_str()) => {
            Some(names(text).map_err(|error| in_words(property, &error))?)
        }
        (Shape::List, Some(text)) => structure(text).map_err(|error| in_words(property, &error))?,
        (Shape::Map, _) if is_left_out(property, &value) => None,
        (Shape::Map, _) => Some(map::fitted(&value).map_err(|error| in_words(property, &error))?),
        _ => None,
    };
    Ok(other.unwrap_or(value))
}

fn in_words(property: &Property, problem: &str) -> String {
    format!("{}: {problem}", property.name)
}

/// The object or list in a text.
fn structure(text: &str) -> Result<Option<Value>, String> {
    json::structure(text).map_err(|Repeated(key)| {
        let key = super::shown(&key);
        format!("{key:?} is there more than once in one object: give it once")
    })
}

/// The names in a text: as JSON, or with commas or spaces between them.
fn names(text: &str) -> Result<Value, String> {
    let separated = || {
        let names = text.split(|one: char| one == ',' || one.is_whitespace());
        names
            .filter(|name| !name.is_empty())
            .map(Value::from)
            .collect()
    };
    Ok(structure(text)?.unwrap_or_else(separated))
}

/// Whether a value says that its argument is left out. For a text that is no id only an empty one does: any other may
/// be meant.
pub(super) fn is_left_out(property: &Property, value: &Value) -> bool {
    let Value::String(text) = value else {
        return false;
    };
    property.optional
        && match property.shape {
            Shape::Text if property.name == "version" => is_any_version(text),
            Shape::Text if !IDS.contains(&property.name.as_str()) => text.is_empty(),
            _ => NOTHING.contains(&text.trim().to_ascii_lowercase().as_str()),
        }
}

/// Whether a value is more than a way to write "not given".
pub(super) fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !NOTHING.contains(&text.trim().to_ascii_lowercase().as_str()),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}

/// Whether a value has the form of its argument.
pub(super) fn has_shape(property: &Property, value: &Value) -> bool {
    match property.shape {
        Shape::Text | Shape::Choice(_) => value.is_string(),
        Shape::Whole | Shape::Number => value.is_number(),
        Shape::Flag => value.is_boolean(),
        Shape::List => value.is_array(),
        Shape::Map => value.is_object(),
        Shape::Other => true,
    }
}

/// Whether two values are the same, however numbers are written.
pub(super) fn are_same(one: &Value, other: &Value) -> bool {
    one == other
        || one
            .as_f64()
            .is_some_and(|number| other.as_f64() == Some(number))
}

/// A name that is a whole number, and a list of one text.
fn text_of(property: &Property, value: &Value) -> Option<Value> {
    if VERBATIM.contains(&property.name.as_str()) {
        return None;
    }
    match value {
        Value::Number(number) if number.is_i64() || number.is_u64() => {
            Some(number.to_string().into())
        }
        Value::Array(list) => match list.as_slice() {
            [text @ Value::String(_)] => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a text says that any version of a package will do.
fn is_any_version(text: &str) -> bool {
    ANY_VERSION.contains(&text.trim().to_ascii_lowercase().as_str())
}

fn choice(choices: &[String], text: &str) -> Option<Value> {
    let found = choices
        .iter()
        .find(|choice| choice.eq_ignore_ascii_case(text.trim()));
    found.map(|choice| choice.as_str().into())
}

/// A number in decimal. Anything else, such as digits in groups, is read differently in different places.
fn number(text: &str) -> Option<Value> {
    let text = text.trim();
    let is_decimal = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    if !text.bytes().all(is_decimal) {
        return None;
    }
    if let Ok(whole) = text.parse::<u64>() {
        return Some(whole.into());
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    Number::from_f64(text.parse().ok()?).map(Value::Number)
}

/// The seconds of a time with its unit, such as `30s`, `2 min` or `30 SEC`.
fn seconds(text: &str) -> Option<Value> {
    let read = |text: &str| humantime::parse_duration(text).ok();
    let text = text.trim();
    let time: Duration = read(text).or_else(|| read(&text.to_ascii_lowercase()))?;
    Number::from_f64(time.as_secs_f64()).map(Value::Number)
}

fn flag(value: &Value) -> Option<Value> {
    let word = match value {
        Value::String(text) => text.trim().to_ascii_lowercase(),
        Value::Number(number) if number.as_f64() == Some(1.0) => "1".to_owned(),
        Value::Number(number) if number.as_f64() == Some(0.0) => "0".to_owned(),
        _ => return None,
    };
    let is_in = |words: &[&str]| words.contains(&word.as_str());
    match (is_in(YES), is_in(NO)) {
        (true, _) => Some(true.into()),
        (_, true) => Some(false.into()),
        _ => None,
    }
}
