//! JSON as models write it: in a string, in a string in a string, or as a literal of Python. Pure.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// How many strings may be around each other.
const LAYERS: usize = 3;

/// An object has a key twice: readers disagree on which of the values counts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repeated(pub(super) String);

/// The object or list that a text is meant as, if it is one.
pub(crate) fn structure(text: &str) -> Result<Option<Value>, Repeated> {
    let Some(json) = within(text) else {
        return Ok(None);
    };
    match repeated_key(&json) {
        Some(key) => Err(Repeated(key)),
        None => Ok(serde_json::from_str(&json).ok()),
    }
}

/// The JSON of the object or list that a text is meant as, if it is one.
pub(crate) fn within(text: &str) -> Option<Cow<'_, str>> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..LAYERS {
        if !text.trim_start().starts_with('"') {
            break;
        }
        text = Cow::Owned(serde_json::from_str(&text).ok()?);
    }
    if !text.trim_start().starts_with(['[', '{']) {
        return None;
    }
    if is_json(&text) {
        return Some(text);
    }
    let json = from_python(&text)?;
    is_json(&json).then_some(Cow::Owned(json))
}

/// The first key that an object in this JSON has twice, at any depth.
pub(crate) fn repeated_key(json: &str) -> Option<String> {
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_str(json);
    // What is no JSON is refused elsewhere.
    let _ = Search(&mut found).deserialize(&mut reader);
    found
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// A literal of Python in JSON: other quotes, other escapes, and `True`, `False` and `None`.
fn from_python(text: &str) -> Option<String> {
    let mut json = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        if matches!(first, '\'' | '"') {
            let (string, end) = python_string(after, first)?;
            json.push_str(&Value::from(string).to_string());
            rest = end;
        } else if first.is_ascii_alphabetic() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            json.push_str(match word {
                "True" => "true",
                "False" => "false",
                "None" => "null",
                // The exponent of a number, or what is no JSON either.
                word => word,
            });
            rest = after;
        } else {
            json.push(first);
            rest = after;
        }
    }
    Some(json)
}

/// The string that begins here and ends at this quote, and what follows it.
fn python_string(text: &str, quote: char) -> Option<(String, &str)> {
    let mut string = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => string.push(match characters.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                same @ ('\\' | '\'' | '"') => same,
                _ => return None,
            }),
            // Only in a string with three quotes.
            '\n' => return None,
            _ if character == quote => return Some((string, &text[at + 1..])),
            _ => string.push(character),
        }
    }
    None
}

/// Walks through a value until a key is found twice.
struct Search<'a>(&'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for Search<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Search<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_element_seed(Search(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if seen.contains(&key) {
                *self.0 = Some(key);
                return Err(A::Error::custom("a key is repeated"));
            }
            seen.insert(key);
            entries.next_value_seed(Search(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_structure_is_found_in_a_text() {
        for (text, meant) in [
            (r#" {"A": 1} "#, json!({ "A": 1 })),
            (r#""{\"A\": [1]}""#, json!({ "A": [1] })),
            (
                "{'A': True, 'B': None, 'C': [False, 1e3]}",
                json!({ "A": true, "B": null, "C": [false, 1e3] }),
            ),
            (
                r#"{'A': "it's", 'B': 'say "so"\n'}"#,
                json!({ "A": "it's", "B": "say \"so\"\n" }),
            ),
            ("['True']", json!(["True"])),
        ] {
            assert_eq!(structure(text), Ok(Some(meant)), "{text}");
        }
        for text in [
            "",
            "six",
            "\"six\"",
            "{A: 1}",
            "{'A': b'1'}",
            r"{'A': '\x41'}",
            "['a' 'b']",
            "['''a''']",
            "{",
        ] {
            assert_eq!(structure(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn a_key_that_is_there_twice_is_found_at_any_depth() {
        for text in [
            r#"{"a":1,"b":2,"a":1}"#,
            r#"[{"x":{"\u0061":1,"a":2}}]"#,
            "{'a': 1, 'a': 2}",
        ] {
            assert_eq!(structure(text), Err(Repeated("a".to_owned())), "{text}");
        }
        assert_eq!(repeated_key(r#"{"a":{"a":[{"a":1},{"a":1}]}}"#), None);
    }

    proptest! {
        #[test]
        fn any_text_has_an_answer(text in "(\\{|\\}|\\[|\\]|\"|'|:|,|True|None|\\\\|\\PC){0,30}") {
            let _ = structure(&text);
        }

        #[test]
        fn json_is_never_changed(strings in prop::collection::vec("\\PC{0,8}", 0..4)) {
            let list = json!(strings);
            prop_assert_eq!(structure(&list.to_string()), Ok(Some(list)));
        }
    }
}
