//! What a schema says about each argument, as far as it decides how a value is read. Pure.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde_json::Value;

use crate::api::schema;

/// How many references may lead to each other.
const DEPTH: usize = 8;

/// The arguments of a tool.
pub(super) struct Properties(Vec<Property>);

/// One argument.
pub(super) struct Property {
    pub(super) name: String,
    pub(super) shape: Shape,
    /// Whether it may be left out.
    pub(super) optional: bool,
    /// Whether clients are told of it.
    pub(super) listed: bool,
}

/// The form that a value is to have.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    /// One of these texts.
    Choice(Vec<String>),
    Whole,
    Number,
    Flag,
    List,
    Map,
    /// More than one form, or one that has no other spelling.
    Other,
}

impl Properties {
    /// The arguments in a type. Each is read once: to make a schema takes longer than to read a call.
    pub(super) fn of_type<T: JsonSchema + 'static>() -> Arc<Self> {
        static KNOWN: LazyLock<Mutex<HashMap<TypeId, Arc<Properties>>>> =
            LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock();
        let read = || Arc::new(Self::of(&schema::accepted::<T>()));
        Arc::clone(known.entry(TypeId::of::<T>()).or_insert_with(read))
    }

    /// Reads a schema.
    pub(super) fn of(schema: &JsonObject) -> Self {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flatten();
        Self(
            properties
                .map(|(name, property)| Property {
                    name: name.clone(),
                    shape: Shape::of(schema, property),
                    optional: !is_required(name),
                    listed: schema::is_listed(property),
                })
                .collect(),
        )
    }

    pub(super) fn get(&self, name: &str) -> Option<&Property> {
        self.0.iter().find(|property| property.name == name)
    }

    /// What clients are told that the tool takes.
    pub(super) fn listed(&self) -> String {
        let listed = self.0.iter().filter(|property| property.listed);
        let names: Vec<_> = listed.map(|property| property.name.as_str()).collect();
        names.join(", ")
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|property| property.name.as_str())
    }
}

impl Shape {
    fn of(root: &JsonObject, property: &Value) -> Self {
        let property = resolved(root, property);
        let mut kinds = kinds(property);
        kinds.retain(|kind| *kind != "null");
        kinds.dedup();
        match kinds.as_slice() {
            ["string"] => match choices(property) {
                choices if choices.is_empty() => Self::Text,
                choices => Self::Choice(choices),
            },
            ["integer"] => Self::Whole,
            ["number"] => Self::Number,
            ["boolean"] => Self::Flag,
            ["array"] => Self::List,
            ["object"] => Self::Map,
            _ => Self::Other,
        }
    }
}

/// What a local reference leads to.
fn resolved<'a>(root: &'a JsonObject, mut schema: &'a Value) -> &'a Value {
    for _ in 0..DEPTH {
        let pointer = schema.get("$ref").and_then(Value::as_str);
        let Some(path) = pointer.and_then(|pointer| pointer.strip_prefix("#/")) else {
            break;
        };
        let mut steps = path.split('/');
        let first = steps.next().and_then(|step| root.get(step));
        let Some(found) = steps.fold(first, |at, step| at?.get(step)) else {
            break;
        };
        schema = found;
    }
    schema
}

/// The types of a schema, or of its variants.
fn kinds(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => variants(schema).flat_map(kinds).collect(),
    }
}

/// The texts that a schema lists.
fn choices(schema: &Value) -> Vec<String> {
    let listed = schema.get("enum").and_then(Value::as_array);
    let listed = listed.into_iter().flatten().chain(schema.get("const"));
    let listed = listed.filter_map(Value::as_str).map(str::to_owned);
    listed.chain(variants(schema).flat_map(choices)).collect()
}

fn variants(schema: &Value) -> impl Iterator<Item = &Value> {
    let variants = ["oneOf", "anyOf"].into_iter();
    let variants = variants.filter_map(|name| schema.get(name)?.as_array());
    variants.flatten()
}
