//! Packages that are to be installed, as a list.

use serde_json::{Map, Value, json};

use super::{NOTHING, is_any_version, structure};

/// The keys of a package that is given in parts.
const NAME: &str = "name";
const VERSION: &str = "version";

/// The list that a value means, if it means one.
pub(super) fn fitted(value: &Value) -> Result<Option<Value>, String> {
    let given = match value {
        Value::String(text) => structure(text)?,
        _ => None,
    };
    let entries: Vec<Value> = match given.as_ref().unwrap_or(value) {
        Value::Array(list) => list.iter().flat_map(listed).collect(),
        Value::Object(object) => in_object(object)?,
        Value::String(text) if NOTHING.contains(&text.trim().to_ascii_lowercase().as_str()) => {
            Vec::new()
        }
        Value::String(text) => texts(text),
        _ => return Ok(None),
    };
    Ok(Some(entries.into_iter().map(without_any_version).collect()))
}

/// What an entry of a list stands for. An empty text is what is left of a text that was cut at its commas.
fn listed(entry: &Value) -> Vec<Value> {
    match entry {
        Value::String(text) => texts(text),
        other => vec![other.clone()],
    }
}

/// The entries in an object: it is one, or has their versions by their names.
fn in_object(object: &Map<String, Value>) -> Result<Vec<Value>, String> {
    if object.is_empty() || object.contains_key(NAME) {
        return Ok(vec![Value::Object(object.clone())]);
    }
    let entry = |(name, version): (&String, &Value)| match version {
        Value::String(version) => Ok(json!({ NAME: name, VERSION: version })),
        Value::Null => Ok(json!({ NAME: name })),
        _ => Err(format!(
            "the version of {:?} is no string: give a list such as [\"six==1.17.0\"]",
            crate::api::arguments::shown(name)
        )),
    };
    object.iter().map(entry).collect()
}

/// The same entry without a version that says that any will do.
fn without_any_version(mut entry: Value) -> Value {
    if let Value::Object(parts) = &mut entry
        && let Some(Value::String(version)) = parts.get(VERSION)
        && is_any_version(version)
    {
        parts.shift_remove(VERSION);
    }
    entry
}

fn texts(text: &str) -> Vec<Value> {
    entries(text).into_iter().map(Value::from).collect()
}

/// The entries in a text with commas or line breaks between them. Spaces separate nothing: in `pip install six` and
/// `numpy and pandas` not every word is an entry. A comma separates entries where a name follows it, but not the
/// versions or the extras of one entry.
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
    let ends = |c: char| c == ',' || c.is_whitespace();
    let entries = entries.into_iter().map(|entry| entry.trim_matches(ends));
    entries.filter(|entry| !entry.is_empty()).collect()
}
