//! What a token says about its holder, once it is known to be true.

use serde_json::{Map, Value};

use super::refusal::Flaw;

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

    /// Whether it has a scope. Issuers name the list differently, and write it as one text or as several.
    pub(super) fn has_scope(&self, scope: &str) -> bool {
        let lists = ["scope", "scp", "permissions"];
        lists.iter().any(|list| {
            let texts = self.texts(list).into_iter();
            texts
                .flat_map(str::split_whitespace)
                .any(|has| has == scope)
        })
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
