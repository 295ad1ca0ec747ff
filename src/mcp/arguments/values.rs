//! Values in the form that a schema asks for, from other ways to write the same. Pure: a value without one meaning is
//! returned as it is, and is then refused for its form.

use std::time::Duration;

use serde_json::{Map, Number, Value};

use super::shape::{Property, Shape};

/// Texts that are taken as they are, even if they are numbers: any change might be meant.
const VERBATIM: &[&str] = &["code", "content", "content_base64"];
/// Times, which some write with their unit.
const SECONDS: &[&str] = &["timeout", "timeoutSeconds", "waitSeconds"];
/// Ids of conversations. One that many chats write by mistake would be one conversation for all of them.
const IDS: &[&str] = &["conversationId", "session_id"];
/// What programs write for a value that is not there.
const NOTHING: &[&str] = &["", "null", "none", "undefined"];
const YES: &[&str] = &["true", "yes", "on", "1"];
const NO: &[&str] = &["false", "no", "off", "0"];
/// What the two parts of a variable are called where variables are a list.
const PAIRS: &[(&str, &str)] = &[("name", "value"), ("key", "value")];

/// The value in the form of its argument.
pub(super) fn fitted(property: &Property, value: Value) -> Value {
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
        (Shape::List, Some(text)) => Some(list(text)),
        (Shape::List, None) => value.is_object().then(|| Value::Array(vec![value.clone()])),
        (Shape::Map, _) => map(&value),
        _ => None,
    };
    other.unwrap_or(value)
}

/// Whether a value says that its argument is left out. For a text that is no id only an empty one does: any other may be
/// meant.
pub(super) fn is_left_out(property: &Property, value: &Value) -> bool {
    let Value::String(text) = value else {
        return false;
    };
    property.optional
        && match property.shape {
            Shape::Text if !IDS.contains(&property.name.as_str()) => text.is_empty(),
            _ => NOTHING.contains(&text.trim().to_ascii_lowercase().as_str()),
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

/// The seconds of a time with its unit, such as `30s` or `2 min`.
fn seconds(text: &str) -> Option<Value> {
    let time: Duration = humantime::parse_duration(text.trim()).ok()?;
    Number::from_f64(time.as_secs_f64()).map(Value::Number)
}

fn flag(value: &Value) -> Option<Value> {
    let word = match value {
        Value::String(text) => text.trim().to_ascii_lowercase(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let is_in = |words: &[&str]| words.contains(&word.as_str());
    match (is_in(YES), is_in(NO)) {
        (true, _) => Some(true.into()),
        (_, true) => Some(false.into()),
        _ => None,
    }
}

/// The entries in a text: JSON, or one entry, or several with commas or line breaks between them. Spaces separate
/// nothing: in `pip install six` and `numpy and pandas` not every word is an entry.
fn list(text: &str) -> Value {
    match json(text) {
        Some(list @ Value::Array(_)) => return list,
        Some(object @ Value::Object(_)) => return Value::Array(vec![object]),
        _ => {}
    }
    if NOTHING.contains(&text.trim().to_ascii_lowercase().as_str()) {
        return text.into();
    }
    Value::Array(entries(text).into_iter().map(Value::from).collect())
}

/// A comma separates entries where a name follows it, but not the versions or the extras of one entry.
fn entries(text: &str) -> Vec<&str> {
    let mut entries = Vec::new();
    let (mut start, mut depth) = (0, 0_usize);
    for (at, character) in text.char_indices() {
        let begins_name = |rest: &str| {
            let next = rest.trim_start().chars().next();
            next.is_none_or(|next| next.is_alphanumeric() || next == '@')
        };
        match character {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '\n' if depth == 0 => {}
            ',' if depth == 0 && begins_name(&text[at + 1..]) => {}
            _ => continue,
        }
        if matches!(character, '\n' | ',') {
            entries.push(&text[start..at]);
            start = at + 1;
        }
    }
    entries.push(&text[start..]);
    let entries = entries.into_iter().map(str::trim);
    entries.filter(|entry| !entry.is_empty()).collect()
}

/// The map in a text, or in a list of variables.
fn map(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => match json(text)? {
            map @ Value::Object(_) => Some(map),
            list @ Value::Array(_) => map(&list),
            _ => None,
        },
        Value::Array(variables) => {
            let mut map = Map::new();
            for variable in variables {
                let (name, value) = pair(variable)?;
                // Given twice, it may be the one or the other.
                if map
                    .insert(name, value.clone())
                    .is_some_and(|earlier| earlier != value)
                {
                    return None;
                }
            }
            Some(Value::Object(map))
        }
        _ => None,
    }
}

/// A variable in a list: `{"name": …, "value": …}`, `{"NAME": …}` or `"NAME=value"`.
fn pair(variable: &Value) -> Option<(String, Value)> {
    if let Value::String(text) = variable {
        let (name, value) = text.split_once('=')?;
        return Some((name.to_owned(), value.into()));
    }
    let variable = variable.as_object()?;
    for (name, value) in PAIRS {
        if let (2, Some(Value::String(name)), Some(value)) =
            (variable.len(), variable.get(*name), variable.get(*value))
        {
            return Some((name.clone(), value.clone()));
        }
    }
    let is_part = |name: &str| {
        PAIRS
            .iter()
            .any(|(first, second)| [*first, *second].contains(&name))
    };
    match (variable.len(), variable.iter().next()) {
        (1, Some((name, value))) if !is_part(name) => Some((name.clone(), value.clone())),
        _ => None,
    }
}

/// The object or list in a text: JSON, or the same in the quotes of Python.
fn json(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with(['[', '{']) {
        return None;
    }
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    if text.contains(['"', '\\']) {
        return None;
    }
    serde_json::from_str(&text.replace('\'', "\"")).ok()
}
