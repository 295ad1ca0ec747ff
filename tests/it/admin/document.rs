//! docs/admin.md says what there is.

use std::collections::BTreeSet;

use axum::http::Method;
use serde_json::Value;

use super::access::ROUTES;
use super::{Administered, LONG, key};
use crate::support::TOKEN;
use crate::support::engines::Engine;

const DOCUMENT: &str = include_str!("../../../docs/admin.md");

/// The examples of answers.
fn examples() -> Vec<Value> {
    let blocks = DOCUMENT.split("```json\n").skip(1);
    let blocks = blocks.map(|block| block.split_once("```").unwrap().0);
    blocks
        .map(|block| serde_json::from_str(block).unwrap())
        .collect()
}

/// Each field of an answer by its path. What a map has as names is not fixed, nor what events have besides.
fn fields(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(event) if path == ".events" => {
            assert!(
                ["seq", "at", "event"]
                    .iter()
                    .all(|name| event.contains_key(*name))
            );
        }
        Value::Object(_) if path == ".usage.runs" => {}
        Value::Object(fields_of) => {
            for (name, field) in fields_of {
                let path = format!("{path}.{name}");
                fields(&path, field, found);
                found.insert(path);
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| fields(path, part, found)),
        _ => {}
    }
}

fn fields_of(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    fields("", value, &mut found);
    found
}

#[test]
fn the_document_has_every_route() {
    let rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter_map(|row| row.split_once('`').map(|(route, _)| route));
    let documented: Vec<_> = rows.collect();
    let keys = [
        ("0123456789abcdef", "{key}"),
        ("run_0123456789abcdef0123456789abcdef", "{id}"),
    ];
    for (method, path) in ROUTES {
        let (before, last) = path.rsplit_once('/').unwrap();
        let key = keys.iter().find(|(key, _)| *key == last);
        let last = key.map_or(last, |(_, name)| *name);
        let route = format!("{method} {before}/{last}");
        assert!(
            documented.contains(&&*route),
            "{route} is not in {documented:?}"
        );
    }
    assert_eq!(documented.len(), ROUTES.len());
}

#[tokio::test]
async fn the_examples_have_the_fields_of_the_answers() {
    let it = Administered::on(Engine::Fake, "shell", &[("CALL_BUDGET", "1s")]).await;
    it.run(TOKEN, "demo", "echo hi > a.txt").await;
    it.run(&it.research, "demo", LONG).await;
    let mut answers = Vec::new();
    for path in [
        "tenants",
        "conversations?limit=1",
        "runs?tenant=research",
        "usage",
        "audit?limit=1",
    ] {
        answers.push(it.get(&format!("/admin/v1/{path}")).await);
    }
    for (example, answer) in examples().iter().zip(&answers) {
        assert_eq!(fields_of(example), fields_of(answer));
    }
    assert_eq!(examples().len(), answers.len());
    let path = format!("/admin/v1/conversations/{}", key(&it.app, "demo"));
    let detail = it.get(&path).await;
    for name in ["files", "truncated", "skipped"] {
        assert!(detail.get(name).is_some() && DOCUMENT.contains(&format!("`{name}`")));
    }
    let deleted = it.ask(Method::DELETE, &path).await.json();
    let names: Vec<_> = deleted.as_object().unwrap().keys().collect();
    assert_eq!(names, ["key", "deleted"]);
    it.app.assert_nothing_is_left().await;
}
