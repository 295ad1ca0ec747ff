//! The schemas that tools publish, made from our types in the form that every client keeps.
//!
//! Between a server and a model stand converters, and each drops or refuses what it does not know: n8n's turns a
//! `$ref` into anything at all, Gemini refuses the whole request for an `exclusiveMinimum`, `OpenAI`'s an array without
//! `items`, and Zed loses tools with a `$ref`. So schemas of arguments keep to what all of them have:
//!
//! | keyword | as |
//! |---|---|
//! | `type` | always, and one: a string, and never `null`; what may be left out is not in `required` |
//! | `description` | of properties |
//! | `properties`, `required` | of the arguments |
//! | `additionalProperties` | a schema, for maps |
//! | `items` | of every array, with one type |
//! | `enum` | strings |
//! | `minimum` | numbers |
//!
//! That is what Gemini's `Schema` (<https://ai.google.dev/api/caching#Schema>), function calling with `OpenAI`'s models
//! (<https://platform.openai.com/docs/guides/function-calling>) and Anthropic's tools
//! (<https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use>) have in common. There is no
//! `default`: converters fill it in, and "left out" is no value. What a transform cannot bring into this form is
//! brought into it at the type, with an attribute of schemars; a test walks all published schemas.
//!
//! Schemas of answers are for programs, not for models. They may say `null`, have the names of our types, which typed
//! clients give to theirs, and no descriptions, which would be two thirds of the list of tools.

use std::slice;

use rmcp::model::JsonObject;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::error::Failure;

/// Marks an argument that is taken and not published, since clients that were made for other tools send it.
const UNLISTED: &str = "x-unlisted";

/// What a tool takes, as it is published.
pub(crate) fn input<T: JsonSchema>() -> JsonObject {
    let mut schema = accepted::<T>();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|_, property| is_listed(property));
    }
    schema
}

/// Whether an argument is published.
pub(crate) fn is_listed(property: &Value) -> bool {
    property.get(UNLISTED).is_none()
}

/// All that a tool takes.
pub(crate) fn accepted<T: JsonSchema>() -> JsonObject {
    let settings = settings().with_transform(RecursiveTransform(|part: &mut Schema| {
        plain(part);
        leave_out(part, "title");
        unwrap_lines(part);
    }));
    let mut schema = generate::<T>(settings);
    // Some function-calling interfaces refuse an object without them.
    schema.entry("properties").or_insert_with(|| json!({}));
    schema
}

/// What a tool answers, which may be a [`Failure`] instead.
///
/// "Servers MUST provide structured results that conform to this schema", says the specification (2025-06-18, Tools,
/// Output Schema). Clients that check this discard what does not conform, and with it the reason that the model needs.
/// So the fields of both are in one object, of which those are required that both have: of alternatives, typed clients
/// make worse types, and strict validators refuse them.
pub(crate) fn output<T: JsonSchema>() -> JsonObject {
    let settings = || {
        let settings = settings().for_serialize();
        settings.with_transform(RecursiveTransform(|part: &mut Schema| {
            plain(part);
            leave_out(part, "description");
        }))
    };
    let mut schema = generate::<T>(settings());
    let failure = generate::<Failure>(settings());
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| {
            let both = failure.get("required").and_then(Value::as_array);
            both.is_some_and(|names| names.contains(name))
        });
    }
    if let (Some(Value::Object(fields)), Some(Value::Object(more))) =
        (schema.get_mut("properties"), failure.get("properties"))
    {
        for (name, field) in more {
            fields.entry(name).or_insert_with(|| field.clone());
        }
    }
    schema
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    })
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.ensure_object().clone()
}

/// Takes away what not everybody knows.
fn plain(part: &mut Schema) {
    words(part);
    for keyword in ["default", "format", "uniqueItems"] {
        leave_out(part, keyword);
    }
}

/// Removes a keyword, and leaves the others in their order.
fn leave_out(part: &mut Schema, keyword: &str) {
    part.ensure_object().shift_remove(keyword);
}

/// Turns alternatives that are words into an `enum`, with what is said about each in the description of all.
fn words(part: &mut Schema) {
    let Some(alternatives) = part.get("oneOf").and_then(Value::as_array) else {
        return;
    };
    let mut words = Vec::new();
    let mut description = part
        .get("description")
        .and_then(Value::as_str)
        .map(str::to_owned);
    for alternative in alternatives {
        let listed = alternative.get("enum").and_then(Value::as_array);
        let one = || alternative.get("const").map(slice::from_ref);
        let Some(these) = listed.map(Vec::as_slice).or_else(one) else {
            return;
        };
        let meaning = alternative.get("description").and_then(Value::as_str);
        if let (Some(word), Some(meaning)) = (these.first().and_then(Value::as_str), meaning) {
            let before = description.map_or_else(String::new, |text| text + " ");
            description = Some(format!("{before}\"{word}\": {meaning}"));
        }
        words.extend_from_slice(these);
    }
    leave_out(part, "oneOf");
    part.insert("type".to_owned(), "string".into());
    part.insert("enum".to_owned(), words.into());
    if let Some(description) = description {
        part.insert("description".to_owned(), description.into());
    }
}

/// Comments are wrapped where the source is; for a model a line break would mean something.
fn unwrap_lines(part: &mut Schema) {
    if let Some(Value::String(text)) = part.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    /// What is true of all of them.
    #[derive(Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    enum Fruit {
        Apple,
        /// Yellow
        /// and bent.
        Banana,
    }

    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Basket {
        fruit: Fruit,
        message: String,
        #[serde(default)]
        #[schemars(with = "u32")]
        count: Option<u32>,
    }

    #[test]
    fn arguments_are_in_the_common_form() {
        let schema = Value::Object(input::<Basket>());
        insta::assert_json_snapshot!(schema, @r#"
        {
          "type": "object",
          "properties": {
            "fruit": {
              "description": "What is true of all of them. \"banana\": Yellow and bent.",
              "type": "string",
              "enum": [
                "apple",
                "banana"
              ]
            },
            "message": {
              "type": "string"
            },
            "count": {
              "type": "integer",
              "minimum": 0
            }
          },
          "required": [
            "fruit",
            "message"
          ]
        }
        "#);
    }

    #[test]
    fn some_arguments_are_taken_and_not_published() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is of interest")]
        struct Arguments {
            #[schemars(extend("x-unlisted" = true))]
            owner: Option<String>,
        }
        let names = |schema: JsonObject| schema["properties"].as_object().unwrap().len();
        assert_eq!(
            (names(input::<Arguments>()), names(accepted::<Arguments>())),
            (0, 1)
        );
    }

    #[test]
    fn answers_can_be_failures() {
        let schema = Value::Object(output::<Basket>());
        insta::assert_json_snapshot!(schema, @r#"
        {
          "type": "object",
          "properties": {
            "fruit": {
              "type": "string",
              "enum": [
                "apple",
                "banana"
              ]
            },
            "message": {
              "type": "string"
            },
            "count": {
              "type": "integer",
              "minimum": 0
            },
            "success": {
              "type": "boolean"
            },
            "code": {
              "type": "string"
            },
            "retryAfterSeconds": {
              "type": "integer",
              "minimum": 0
            }
          },
          "required": [
            "message"
          ],
          "title": "Basket"
        }
        "#);
    }
}
