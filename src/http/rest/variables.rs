//! Variables that a request gives to its program.

use serde_json::{Map, Value};

use super::ApiError;

/// The program with a line before it that sets `variables`.
pub(super) fn before(
    code: String,
    language: &str,
    variables: &Map<String, Value>,
) -> Result<String, ApiError> {
    if variables.is_empty() {
        return Ok(code);
    }
    if let Some(name) = variables.keys().find(|name| !is_name(name)) {
        return Err(ApiError::arguments(format!(
            "variables has {name:?}, which is no name of a variable: use letters, digits and _"
        )));
    }
    // What JSON escapes in a string, Python and TypeScript read the same way.
    let json = Value::Object(variables.clone()).to_string();
    let text = Value::String(json);
    let line = match language {
        "python" => format!("globals().update(__import__('json').loads({text}))"),
        "typescript" => format!("Object.assign(globalThis, JSON.parse({text}));"),
        other => {
            return Err(ApiError::arguments(format!(
                "variables are for python and typescript, not for {other}: write them into the program"
            )));
        }
    };
    Ok(format!("{line}\n{code}"))
}

/// Whether Python and TypeScript take it as a name. Keywords are harmless: nobody can ask for their values.
fn is_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(letter)
        && name
            .bytes()
            .all(|byte| letter(byte) || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(language: &str, variables: &Value) -> String {
        let set = before(
            "print(a)".to_owned(),
            language,
            variables.as_object().unwrap(),
        );
        set.unwrap_or_else(|ApiError(error)| error.message)
    }

    #[test]
    fn variables_are_set_in_a_line_of_their_own() {
        let tricky = json!({ "a": "'\"\\\n" });
        assert_eq!(
            with("python", &tricky),
            r#"globals().update(__import__('json').loads("{\"a\":\"'\\\"\\\\\\n\"}"))"#.to_owned()
                + "\nprint(a)"
        );
        assert_eq!(
            with("typescript", &json!({ "a": [1, null] })),
            r#"Object.assign(globalThis, JSON.parse("{\"a\":[1,null]}"));"#.to_owned()
                + "\nprint(a)"
        );
        assert_eq!(with("python", &json!({})), "print(a)");
        insta::assert_snapshot!(with("shell", &json!({ "a": 1 })), @"variables are for python and typescript, not for shell: write them into the program");
        insta::assert_snapshot!(with("python", &json!({ "a-b": 1 })), @r#"variables has "a-b", which is no name of a variable: use letters, digits and _"#);
    }
}
