//! Reads the arguments of a tool as models write them, and says what is wrong with them in words that a model can act
//! on.
//!
//! What has one meaning is brought into the form of the tool's schema before it is read: [`names`] finds out which
//! argument is meant, [`shape`] which form it is to have, and [`values`] brings it there. What has two meanings is
//! refused. The published schema knows nothing of this.

mod names;
mod shape;
mod values;
mod whole;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::names::Meaning;
use self::shape::{Properties, Property};
pub(crate) use self::whole::{some_whole, whole};
use super::error::CallError;

/// Longest piece of a caller's text in a message.
const SHOWN: usize = 64;

/// Reads a tool's arguments.
pub(crate) fn parse<T: DeserializeOwned + JsonSchema + 'static>(
    tool: &str,
    arguments: JsonObject,
) -> Result<T, CallError> {
    let arguments = normalized(&Properties::of_type::<T>(), arguments)
        .map_err(|problem| CallError::invalid(&format!("{tool}: {problem}")))?;
    serde_path_to_error::deserialize(Value::Object(arguments))
        .map_err(|error| CallError::arguments(tool, &error))
}

/// What a caller has to know of the arguments that a tool ignores, though other tools that run programs have them.
pub(crate) fn ignored<T: JsonSchema + 'static>(
    tool: &str,
    arguments: &JsonObject,
) -> Option<String> {
    let properties = Properties::of_type::<T>();
    let missed = |(name, value): &(&String, &Value)| {
        values::says_something(value) && names::is_missed(name, &properties)
    };
    let names: Vec<_> = arguments
        .iter()
        .filter(missed)
        .map(|(name, _)| shown(name))
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "{tool} ignored {}: it takes {}",
            names.join(", "),
            properties.listed()
        )
    })
}

/// The arguments under the names and in the forms of a schema. One that is `null` counts as left out, and so does an
/// empty text where it may be. Unknown ones stay as they are, since some clients send everything they have; one that
/// looks like a misspelling of ours is refused: it would silently do something else.
fn normalized(properties: &Properties, arguments: JsonObject) -> Result<JsonObject, String> {
    let mut given: Vec<Given<'_>> = Vec::with_capacity(arguments.len());
    let mut others = Vec::new();
    let there = arguments.into_iter().filter(|(_, value)| !value.is_null());
    let (vague, clear): (Vec<_>, Vec<_>) =
        there.partition(|(name, _)| names::is_vague(name, properties));
    for (name, value) in clear.into_iter().chain(vague) {
        let Some(argument) = names::meant(&name, properties) else {
            others.push((name, value));
            continue;
        };
        let value = values::fitted(argument, value)?;
        let is_other =
            || names::is_vague(&name, properties) && !values::has_shape(argument, &value);
        if values::is_left_out(argument, &value) || is_other() {
            continue;
        }
        let is_same = |known: &&Given<'_>| known.argument.name == argument.name;
        match given.iter().find(is_same) {
            None => given.push(Given {
                argument,
                name,
                value,
            }),
            Some(known) if values::are_same(&known.value, &value) => {}
            // Next to the right one, it is something else that the client sends along.
            Some(_) if names::is_vague(&name, properties) => {}
            Some(known) => return Err(known.differs_from(&name)),
        }
    }
    let is_given = |name: &str| given.iter().any(|known| known.argument.name == name);
    for (name, _) in &others {
        if let Some(Meaning { argument, why }) = names::resembled(name, properties, is_given) {
            return Err(format!(
                "there is no argument {:?}: did you mean {argument}{why}? It takes {}",
                shown(name),
                properties.listed()
            ));
        }
    }
    let given = given
        .into_iter()
        .map(|known| (known.argument.name.clone(), known.value));
    Ok(given.chain(others).collect())
}

/// An argument, and the name under which it was given.
struct Given<'a> {
    argument: &'a Property,
    name: String,
    value: Value,
}

impl Given<'_> {
    fn differs_from(&self, other: &str) -> String {
        let (one, other) = (shown(&self.name), shown(other));
        let ours = &self.argument.name;
        format!("{one:?} and {other:?} are the same argument and differ: give {ours} alone")
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests;
