//! Reads the arguments of a tool, and says what is wrong with them in words that a model can act on.

use std::fmt;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserializer;
use serde::de::{self, DeserializeOwned, Unexpected, Visitor};
use serde_json::Value;

use super::error::ToolError;
use super::schema;

/// Arguments that workflow engines add for every tool, however close their names are to one of ours.
const ADDED_BY_CLIENTS: &[&str] = &["action", "chatInput", "sessionId", "toolCallId"];
/// How many letters may differ between an argument and what is taken for a misspelling of it.
const TYPOS: usize = 2;
/// Shorter names are too close to each other by chance.
const MIN_LENGTH: usize = 4;
/// The first whole number that 64 bits do not hold.
const BEYOND: f64 = 18_446_744_073_709_551_616.0;

/// Reads a tool's arguments. One that is `null` counts as left out. Unknown ones are ignored, since some clients send
/// everything they have. What looks like a misspelling of ours is refused: it would silently do something else.
pub(super) fn parse<T: DeserializeOwned + JsonSchema>(
    tool: &str,
    mut arguments: JsonObject,
) -> Result<T, ToolError> {
    arguments.retain(|_, value| !value.is_null());
    let schema = schema::input::<T>();
    let known = schema.get("properties").and_then(Value::as_object);
    let known: Vec<&str> = known
        .map(|known| known.keys().map(String::as_str).collect())
        .unwrap_or_default();
    for given in arguments.keys() {
        if let Some(meant) = misspelt(given, &known, &arguments) {
            let given: String = given.chars().take(64).collect();
            let known = known.join(", ");
            return Err(ToolError::invalid(&format!(
                "{tool}: there is no argument {given:?}: did you mean {meant}? It takes {known}"
            )));
        }
    }
    serde_path_to_error::deserialize(Value::Object(arguments))
        .map_err(|error| ToolError::arguments(tool, &error))
}

/// Reads a whole number that is not negative. `65536.0` is one too, as in JSON Schema, since some clients write every
/// number with a decimal point.
pub(super) fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    deserializer: D,
) -> Result<T, D::Error> {
    struct Whole;

    impl Visitor<'_> for Whole {
        type Value = u64;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a whole number from 0 on")
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
            Ok(number)
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
            let wrong = || E::invalid_value(Unexpected::Signed(number), &self);
            u64::try_from(number).map_err(|_| wrong())
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<u64, E> {
            if number.fract() != 0.0 || !(0.0..BEYOND).contains(&number) {
                return Err(E::invalid_value(Unexpected::Float(number), &self));
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "seen to be a whole number that fits"
            )]
            Ok(number as u64)
        }
    }

    let number = deserializer.deserialize_u64(Whole)?;
    T::try_from(number).map_err(|_| de::Error::invalid_value(Unexpected::Unsigned(number), &Whole))
}

/// The same for an argument that may be left out.
pub(super) fn some_whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    whole(deserializer).map(Some)
}

/// Which argument an unknown one was probably meant to be.
fn misspelt<'a>(given: &str, known: &[&'a str], arguments: &JsonObject) -> Option<&'a str> {
    if known.contains(&given) || ADDED_BY_CLIENTS.contains(&given) {
        return None;
    }
    let plain = |name: &str| -> String {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        letters.collect::<String>().to_ascii_lowercase()
    };
    let written = plain(given);
    known
        .iter()
        .filter(|name| !arguments.contains_key(**name))
        .find(|name| {
            let name = plain(name);
            let shortest = name.len().min(written.len());
            name == written
                || (shortest >= MIN_LENGTH
                    && strsim::osa_distance(&name, &written) <= TYPOS.min(shortest / 3))
        })
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_are_told_from_what_clients_add() {
        let known = ["conversationId", "language", "code", "timeoutSeconds"];
        let meant = |given: &str| misspelt(given, &known, &JsonObject::new());
        assert_eq!(meant("conversation_id"), Some("conversationId"));
        assert_eq!(meant("ConversationID"), Some("conversationId"));
        assert_eq!(meant("langauge"), Some("language"));
        assert_eq!(meant("cod"), None);
        assert_eq!(meant("coed"), Some("code"));
        assert_eq!(meant("timeoutSecond"), Some("timeoutSeconds"));
        for other in [
            "toolCallId",
            "tool",
            "id",
            "language",
            "_meta",
            "session",
            "",
        ] {
            assert_eq!(meant(other), None, "{other}");
        }
        let given = JsonObject::from_iter([("code".to_owned(), Value::from("1"))]);
        assert_eq!(misspelt("coed", &known, &given), None);
        // Close to an argument of another server, and sent by a workflow engine with every call.
        let theirs = ["session_id"];
        assert_eq!(misspelt("sessionId", &theirs, &JsonObject::new()), None);
        assert_eq!(
            misspelt("sesion_id", &theirs, &JsonObject::new()),
            Some("session_id")
        );
    }
}
