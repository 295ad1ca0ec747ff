//! The schemas of all tools of all sets, walked: those of arguments against the subset that `src/mcp/schema.rs`
//! describes, those of answers against what strict validators and typed clients take.

use serde_json::{Map, Value, json};

use crate::support::TestApp;

/// What a schema may be written with.
struct Subset {
    keywords: &'static [&'static str],
    /// Whether a value may also be `null`.
    null: bool,
}

const ARGUMENTS: Subset = Subset {
    keywords: &[
        "type",
        "description",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "minimum",
    ],
    null: false,
};

const ANSWERS: Subset = Subset {
    keywords: &[
        "title",
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "minimum",
    ],
    null: true,
};

/// Which keywords say something about values of a type. A strict validator refuses the others.
const OF_TYPES: &[(&str, &[&str])] = &[
    ("properties", &["object"]),
    ("required", &["object"]),
    ("additionalProperties", &["object"]),
    ("items", &["array"]),
    ("enum", &["string"]),
    ("minimum", &["integer", "number"]),
];

async fn tools(toolset: &str) -> Vec<Value> {
    let settings = [("MCP_TOOLSET", toolset)];
    let app = TestApp::on_fake_speaking(&["python"], &settings).await;
    let list = app.rpc("tools/list", json!({})).await;
    list["result"]["tools"].as_array().unwrap().clone()
}

async fn all_tools() -> Vec<Value> {
    let mut all = Vec::new();
    for toolset in ["default", "artifacts", "python"] {
        all.extend(tools(toolset).await);
    }
    all
}

/// Adds what is wrong with a schema and those inside it.
fn walk(schema: &Value, subset: &Subset, path: &str, wrong: &mut Vec<String>) {
    let Some(schema) = schema.as_object() else {
        wrong.push(format!("{path} is no object: {schema}"));
        return;
    };
    let kind = kind(schema, subset).unwrap_or_default();
    let kinds = ["object", "array", "string", "integer", "number", "boolean"];
    if !kinds.contains(&kind) {
        wrong.push(format!("{path} has no single type: {schema:?}"));
    }
    for (keyword, value) in schema {
        if !subset.keywords.contains(&keyword.as_str()) {
            wrong.push(format!("{path} has {keyword}"));
        }
        let of_types = OF_TYPES.iter().find(|(name, _)| name == keyword);
        if of_types.is_some_and(|(_, kinds)| !kinds.contains(&kind)) {
            wrong.push(format!("{path} has {keyword} and is of type {kind}"));
        }
        match keyword.as_str() {
            "properties" => {
                for (name, property) in value.as_object().unwrap() {
                    walk(property, subset, &format!("{path}.{name}"), wrong);
                }
            }
            "items" => walk(value, subset, &format!("{path}[]"), wrong),
            "additionalProperties" => walk(value, subset, &format!("{path}.*"), wrong),
            "enum" => {
                let words = value.as_array().unwrap();
                if words.is_empty() || !words.iter().all(Value::is_string) {
                    wrong.push(format!("{path} is one of {value}"));
                }
            }
            _ => {}
        }
    }
    if kind == "array" && !schema.contains_key("items") {
        wrong.push(format!("{path} is an array of nothing"));
    }
    if kind == "object"
        && !schema.contains_key("properties")
        && !schema.contains_key("additionalProperties")
    {
        wrong.push(format!("{path} is an object of nothing"));
    }
    for name in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if schema["properties"].get(name.as_str().unwrap()).is_none() {
            wrong.push(format!("{path} requires {name}, which it does not have"));
        }
    }
}

/// The type of a value, leaving out `null` where it may be that too.
fn kind<'a>(schema: &'a Map<String, Value>, subset: &Subset) -> Option<&'a str> {
    match schema.get("type")? {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) if subset.null => match kinds.as_slice() {
            [kind, Value::String(null)] if null == "null" => kind.as_str(),
            _ => None,
        },
        _ => None,
    }
}

#[tokio::test]
async fn every_schema_of_every_tool_is_in_the_form_that_all_clients_keep() {
    let mut wrong = Vec::new();
    for tool in all_tools().await {
        let name = tool["name"].as_str().unwrap();
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
        assert!(tool["inputSchema"]["properties"].is_object(), "{name}");
        walk(&tool["inputSchema"], &ARGUMENTS, name, &mut wrong);
        if let Some(answer) = tool.get("outputSchema") {
            assert_eq!(answer["type"], "object", "{name}");
            walk(answer, &ANSWERS, &format!("{name}()"), &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn every_argument_tells_the_model_what_it_is() {
    for tool in all_tools().await {
        for (name, argument) in tool["inputSchema"]["properties"].as_object().unwrap() {
            let description = argument["description"].as_str().unwrap_or_default();
            assert!(
                description.ends_with('.'),
                "{}: {name}: {description}",
                tool["name"]
            );
            assert!(
                !description.contains('\n'),
                "{}: {name}: {description}",
                tool["name"]
            );
        }
    }
}

#[tokio::test]
async fn failures_fit_the_schema_of_an_answer() {
    for tool in all_tools().await {
        let Some(answer) = tool.get("outputSchema") else {
            continue;
        };
        let failure = ["success", "code", "message", "retryAfterSeconds"];
        for name in failure {
            assert!(
                answer["properties"][name].is_object(),
                "{}: {name}",
                tool["name"]
            );
        }
        let required = answer.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten() {
            assert!(
                failure[..3].contains(&name.as_str().unwrap()),
                "{}: {name}",
                tool["name"]
            );
        }
    }
}

/// Clients load the list anew with every conversation, and some show it to their models as it is.
#[tokio::test]
async fn the_list_of_tools_is_short() {
    let size = |tools: &[Value]| -> usize { tools.iter().map(|tool| tool.to_string().len()).sum() };
    let mut answers = 0;
    for tool in tools("default").await {
        answers += tool["outputSchema"].to_string().len();
    }
    assert!(answers < 9_200, "{answers} bytes of schemas of answers");
    let all = size(&tools("default").await);
    assert!(all < 20_000, "{all} bytes");
}
