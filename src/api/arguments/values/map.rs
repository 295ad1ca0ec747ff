//! Maps: of environment variables, which are the only ones that our tools take.
//!
//! Messages name variables and places, and never repeat a value: it may be a secret.

use serde_json::{Map, Value};

use super::structure;

/// What the two parts of a variable are called where variables are a list.
const PAIRS: &[(&str, &str)] = &[("name", "value"), ("key", "value")];
/// What to give instead.
const FORM: &str = "give an object such as {\"NAME\": \"value\"}";

/// The map that a value means.
pub(super) fn fitted(value: &Value) -> Result<Value, String> {
    match value {
        Value::Object(_) => Ok(value.clone()),
        Value::Array(list) => listed(list),
        Value::String(text) => match structure(text)? {
            Some(Value::Array(list)) => listed(&list),
            Some(map) => Ok(map),
            None => lines(text),
        },
        _ => Err(format!("it is no object: {FORM}")),
    }
}

/// The variables of a list.
fn listed(variables: &[Value]) -> Result<Value, String> {
    let mut map = Map::new();
    for (at, variable) in variables.iter().enumerate() {
        let (name, value) = pair(variable)
            .ok_or_else(|| format!("entry {} is no variable with its value: {FORM}", at + 1))?;
        add(&mut map, name, value)?;
    }
    Ok(Value::Object(map))
}

/// Given twice, it may be the one or the other.
fn add(map: &mut Map<String, Value>, name: String, value: Value) -> Result<(), String> {
    match map.get(&name) {
        Some(earlier) if *earlier != value => {
            let name = crate::api::arguments::shown(&name);
            Err(format!("{name:?} is there more than once: give it once"))
        }
        _ => {
            map.insert(name, value);
            Ok(())
        }
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

/// The variables of a text as in an `.env` file, one in a line. What readers of such files do not agree on is refused:
/// quotes, comments behind a value, and what may be a second variable in the line.
fn lines(text: &str) -> Result<Value, String> {
    let mut map = Map::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let (name, value) = line
            .split_once('=')
            .filter(|(name, value)| is_name(name) && !is_doubtful(value))
            .ok_or_else(|| format!("line {} is not plainly NAME=value: {FORM}", at + 1))?;
        add(&mut map, name.to_owned(), value.into())?;
    }
    Ok(Value::Object(map))
}

fn is_name(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether a value can be read in two ways.
fn is_doubtful(value: &str) -> bool {
    let mut words = value.split([' ', '\t', ',', ';']).skip(1);
    let begins_other = |word: &str| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    value.starts_with(['"', '\'', ' '])
        || words.any(|word| word.starts_with('#') || begins_other(word))
}
