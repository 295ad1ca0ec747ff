use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, json};

use super::*;

/// One argument of every form.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only their schema is of interest")]
struct Arguments {
    #[serde(default)]
    #[schemars(with = "String")]
    conversation_id: Option<String>,
    code: String,
    filename: String,
    #[serde(default)]
    #[schemars(with = "f64")]
    timeout_seconds: Option<f64>,
    #[serde(default, deserialize_with = "some_whole")]
    #[schemars(with = "usize")]
    offset: Option<usize>,
    #[serde(default)]
    network: bool,
    #[serde(default)]
    #[schemars(with = "Stream")]
    stream: Option<Stream>,
    #[serde(default)]
    packages: Vec<Package>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Stream {
    /// Has a description, and so a place of its own in the schema.
    Output,
    Stdout,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only their schema is of interest")]
enum Package {
    Text(String),
    Parts { name: String },
}

fn read(arguments: Value) -> Result<Value, String> {
    let Value::Object(arguments) = arguments else {
        panic!("no object");
    };
    normalized(&Properties::of_type::<Arguments>(), arguments).map(Value::Object)
}

#[test]
fn requests_with_one_meaning_are_taken() {
    for (written, meant) in [
        (
            json!({ "timeoutSeconds": "30" }),
            json!({ "timeoutSeconds": 30 }),
        ),
        (
            json!({ "timeoutSeconds": " 2.5 " }),
            json!({ "timeoutSeconds": 2.5 }),
        ),
        (
            json!({ "timeoutSeconds": "30s" }),
            json!({ "timeoutSeconds": 30.0 }),
        ),
        (
            json!({ "timeout_seconds": "2 min" }),
            json!({ "timeoutSeconds": 120.0 }),
        ),
        (json!({ "timeout": 5 }), json!({ "timeoutSeconds": 5 })),
        (
            json!({ "timeout": "5", "timeoutSeconds": 5.0 }),
            json!({ "timeoutSeconds": 5 }),
        ),
        (
            json!({ "timeout": "", "timeoutSeconds": 5 }),
            json!({ "timeoutSeconds": 5 }),
        ),
        (json!({ "timeoutSeconds": "none" }), json!({})),
        (json!({ "offset": "0" }), json!({ "offset": 0 })),
        (json!({ "offset": "-1" }), json!({ "offset": -1 })),
        (json!({ "offset": "2.0" }), json!({ "offset": 2.0 })),
        (json!({ "network": "False" }), json!({ "network": false })),
        (json!({ "network": " yes " }), json!({ "network": true })),
        (json!({ "network": 1 }), json!({ "network": true })),
        (json!({ "network": "" }), json!({})),
        (json!({ "stream": "STDOUT" }), json!({ "stream": "stdout" })),
        (json!({ "stream": "" }), json!({})),
        (json!({ "conversationId": "" }), json!({})),
        (
            json!({ "conversationId": 7 }),
            json!({ "conversationId": "7" }),
        ),
        (
            json!({ "session_id": "a", "conversationId": "b" }),
            json!({ "conversationId": "b" }),
        ),
        (json!({ "code": "" }), json!({ "code": "" })),
        (json!({ "source": "1" }), json!({ "code": "1" })),
        (
            json!({ "source": "chat", "code": "1" }),
            json!({ "code": "1" }),
        ),
        (json!({ "file_name": "x" }), json!({ "filename": "x" })),
        (json!({ "filename": "" }), json!({ "filename": "" })),
        (json!({ "packages": "six" }), json!({ "packages": ["six"] })),
        (
            json!({ "packages": "six, numpy" }),
            json!({ "packages": ["six", "numpy"] }),
        ),
        (
            json!({ "packages": "a[x,y]>=1,<2,\nb == 2 \n@c/d@^1" }),
            json!({ "packages": ["a[x,y]>=1,<2", "b == 2", "@c/d@^1"] }),
        ),
        (
            json!({ "packages": "[\"six\"]" }),
            json!({ "packages": ["six"] }),
        ),
        (
            json!({ "packages": "['six', 'numpy']" }),
            json!({ "packages": ["six", "numpy"] }),
        ),
        (
            json!({ "packages": { "name": "six" } }),
            json!({ "packages": [{ "name": "six" }] }),
        ),
        (
            json!({ "packages": "{\"name\": \"six\"}" }),
            json!({ "packages": [{ "name": "six" }] }),
        ),
        // Which of these words are packages is not known.
        (
            json!({ "packages": "pip install six" }),
            json!({ "packages": ["pip install six"] }),
        ),
    ] {
        assert_eq!(read(written.clone()), Ok(meant), "{written}");
    }
}

#[test]
fn objects_and_lists_of_one_meaning_are_taken() {
    for (written, meant) in [
        (
            json!({ "environment": "{\"A\":\"1\"}" }),
            json!({ "environment": { "A": "1" } }),
        ),
        (
            json!({ "environment": "{'A': '1'}" }),
            json!({ "environment": { "A": "1" } }),
        ),
        (
            json!({ "environment": "A=1\nB=http://x/?y=1,2" }),
            json!({ "environment": { "A": "1", "B": "http://x/?y=1,2" } }),
        ),
        (
            json!({ "packages": ["six, numpy", " ", "a[x,y]"] }),
            json!({ "packages": ["six", "numpy", "a[x,y]"] }),
        ),
        (
            json!({ "packages": { "six": "1.17.0", "numpy": "*" } }),
            json!({ "packages": [{ "name": "six", "version": "1.17.0" }, { "name": "numpy" }] }),
        ),
        (
            json!({ "hosts": "a.example, b.example c.example:80" }),
            json!({ "hosts": ["a.example", "b.example", "c.example:80"] }),
        ),
        (
            json!({ "hosts": "[\"a.example\"]" }),
            json!({ "hosts": ["a.example"] }),
        ),
        (json!({ "hosts": "" }), json!({})),
        (json!({ "environment": "" }), json!({})),
        (json!({ "environment": [] }), json!({ "environment": {} })),
        (
            json!({ "env": [{ "name": "A", "value": "1" }, { "key": "B", "value": 2 }, "C=3=4", { "D": "5" }] }),
            json!({ "environment": { "A": "1", "B": 2, "C": "3=4", "D": "5" } }),
        ),
    ] {
        assert_eq!(read(written.clone()), Ok(meant), "{written}");
    }
}

#[test]
fn what_has_two_meanings_stays_for_a_refusal() {
    for arguments in [
        json!({ "timeoutSeconds": "soon" }),
        json!({ "timeoutSeconds": "1,5" }),
        json!({ "timeoutSeconds": "0x10" }),
        json!({ "timeoutSeconds": "inf" }),
        json!({ "timeoutSeconds": [30] }),
        json!({ "offset": "65_536" }),
        json!({ "offset": "5 kB" }),
        json!({ "network": "maybe" }),
        json!({ "network": 2 }),
        json!({ "stream": "both" }),
        json!({ "code": 1 }),
        json!({ "code": ["a"] }),
        json!({ "conversationId": 1.5 }),
        json!({ "filename": ["a", "b"] }),
        json!({ "packages": 7 }),
    ] {
        assert_eq!(
            read(arguments.clone()),
            Ok(arguments.clone()),
            "{arguments}"
        );
    }
    let refused = |arguments| read(arguments).unwrap_err();
    for environment in [
        json!("A"),
        json!("A='1'"),
        json!("A=1 B=2"),
        json!(["A"]),
        json!([{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }]),
        json!([{ "name": "A" }]),
        json!(7),
    ] {
        let message = refused(json!({ "environment": environment }));
        assert!(message.starts_with("environment: "), "{message}");
    }
    insta::assert_snapshot!(refused(json!({ "timeout": 5, "timeoutSeconds": 6 })), @r#""timeout" and "timeoutSeconds" are the same argument and differ: give timeoutSeconds alone"#);
    insta::assert_snapshot!(refused(json!({ "file_name": "a", "fileName": "b" })), @r#""file_name" and "fileName" are the same argument and differ: give filename alone"#);
    insta::assert_snapshot!(refused(json!({ "timeoutMs": 5000 })), @r#"there is no argument "timeoutMs": did you mean timeoutSeconds, in seconds? It takes conversationId, code, filename, timeoutSeconds, offset, network, stream, packages, hosts, environment"#);
    insta::assert_snapshot!(refused(json!({ "timout": 5 })), @r#"there is no argument "timout": did you mean timeoutSeconds? It takes conversationId, code, filename, timeoutSeconds, offset, network, stream, packages, hosts, environment"#);
}

/// Any JSON that is not too deep.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[-+0-9.,eEsm \\[\\]{}'\":a=]{0,12}|\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array);
        let map = prop::collection::vec(("name|value|key|[A-Z]", inner), 0..4)
            .prop_map(|entries| Value::Object(entries.into_iter().collect()));
        prop_oneof![list, map]
    })
}

fn any_arguments() -> impl Strategy<Value = Map<String, Value>> {
    let name = "conversationId|code|filename|timeoutSeconds|offset|network|stream|packages|environment|timeout|env|\
                file_name|source|session_id|\\PC{0,10}";
    prop::collection::vec((name, anything()), 0..6)
        .prop_map(|entries| entries.into_iter().collect())
}

proptest! {
    #[test]
    fn arguments_are_the_same_the_second_time(arguments in any_arguments()) {
        let properties = Properties::of_type::<Arguments>();
        if let Ok(once) = normalized(&properties, arguments) {
            prop_assert_eq!(normalized(&properties, once.clone()), Ok(once));
        }
    }

    #[test]
    fn arguments_that_fit_stay_as_they_are(
        code in "\\PC{0,20}", id in "conv_\\PC{0,15}", timeout: f64, offset: u64, network: bool,
        packages in prop::collection::vec("[a-z][a-z0-9.=-]{0,12}", 0..4),
        environment in prop::collection::btree_map("\\PC{0,8}", "\\PC{0,8}", 0..4),
    ) {
        let arguments = json!({
            "conversationId": id, "code": code, "filename": code, "timeoutSeconds": timeout, "offset": offset,
            "network": network, "stream": "stdout", "packages": packages, "environment": environment, "chatInput": code,
        });
        prop_assert_eq!(read(arguments.clone()), Ok(arguments));
    }
}
