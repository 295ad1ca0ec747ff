//! What a token says about its holder, once it is known to be true.

use serde_json::{Map, Value};

use super::refusal::Flaw;
use crate::scope::Scopes;

/// The lists of what a client may do, as issuers name them.
const OF_CLIENT: &[&str] = &["scope", "scp"];
/// The list of what its user may do, whatever the client asked for.
const OF_USER: &[&str] = &["permissions"];

/// What a token says.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(pub(super) Map<String, Value>);

impl Claims {
    /// A claim that is a text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// A claim that is one text or several; nothing if it is not there.
    pub(super) fn texts(&self, name: &str) -> Vec<&str> {
        match self.0.get(name) {
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// Who holds it.
    pub(super) fn subject(&self) -> Result<&str, Flaw> {
        let subject = self
            .text("sub")
            .filter(|subject| !subject.trim().is_empty());
        subject.ok_or_else(|| Flaw::Claim("sub".to_owned()))
    }

    /// When it expires, in seconds since 1970.
    pub(super) fn expires(&self) -> Option<u64> {
        self.0.get("exp")?.as_u64()
    }

    /// Whether it has a scope.
    pub(super) fn has_scope(&self, scope: &str) -> bool {
        let mut words = self.words(OF_CLIENT).chain(self.words(OF_USER));
        words.any(|has| has == scope)
    }

    /// What it lets its holder do here, if it says so. What its user may do counts only where the list of what its
    /// client may do has no word of it.
    pub(super) fn scopes(&self) -> Option<Scopes> {
        let of_client = Scopes::of_words(self.words(OF_CLIENT));
        of_client.or_else(|| Scopes::of_words(self.words(OF_USER)))
    }

    /// The words of lists, each of which is one text or several.
    fn words(&self, lists: &[&str]) -> impl Iterator<Item = &str> {
        let texts = lists.iter().flat_map(|list| self.texts(list));
        texts.flat_map(str::split_whitespace)
    }

    /// Refuses what only looks like an access token. They are signed with the same key, and may be for the same client.
    pub(super) fn check_purpose(&self) -> Result<(), Flaw> {
        if let Some(kind @ ("ID" | "Refresh" | "Logout" | "Offline")) = self.text("typ") {
            return Err(match kind {
                "ID" => Flaw::IdToken,
                _ => Flaw::Type(kind.to_owned()),
            });
        }
        if self.0.contains_key("events") {
            return Err(Flaw::Type("logout".to_owned()));
        }
        if self.0.contains_key("at_hash") || self.0.contains_key("nonce") {
            return Err(Flaw::IdToken);
        }
        Ok(())
    }
}
