//! For whom tokens have to be issued: this server, by any of its addresses, or who the operator says.

use super::claims::Claims;
use super::refusal::{Flaw, shown};

/// For whom tokens may be issued.
#[derive(Debug)]
pub(super) struct Audiences {
    /// Our addresses, in the form that they are compared in.
    own: Vec<String>,
    /// What is taken as it is written.
    exact: Vec<String>,
    /// What would do, in words.
    taken: String,
    /// Where others can be added.
    setting: &'static str,
}

impl Audiences {
    /// The first of our addresses is the one to tell.
    pub(super) fn new(own: &[String], exact: &[String], setting: &'static str) -> Self {
        let taken = own.iter().take(1).chain(exact);
        Self {
            taken: taken.map(String::as_str).collect::<Vec<_>>().join(" or "),
            own: own.iter().map(|address| comparable(address)).collect(),
            exact: exact.to_vec(),
            setting,
        }
    }

    /// Refuses a token that is for others only.
    pub(super) fn check(&self, claims: &Claims) -> Result<(), Flaw> {
        let came = claims.texts("aud");
        let taken = self.taken.clone();
        if came.iter().all(|audience| audience.is_empty()) {
            return Err(Flaw::NoAudience { taken });
        }
        if came.iter().any(|audience| self.takes(audience)) {
            return Ok(());
        }
        let came = shown(&came.join(", "));
        Err(Flaw::Audience {
            came,
            taken,
            setting: self.setting,
        })
    }

    fn takes(&self, audience: &str) -> bool {
        self.exact.iter().any(|exact| exact == audience) || self.own.contains(&comparable(audience))
    }
}

/// An address with what may be written differently made the same: the case of scheme and host, and a slash at the end.
fn comparable(address: &str) -> String {
    let address = address.strip_suffix('/').unwrap_or(address);
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (scheme, authority) = (scheme.to_ascii_lowercase(), authority.to_ascii_lowercase());
    format!("{scheme}://{authority}{path}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(audience: &Value) -> Result<(), Flaw> {
        let own = ["https://box.example/mcp", "https://box.example"].map(str::to_owned);
        let exact = ["client".to_owned(), "https://Exact.example/".to_owned()];
        let Value::Object(claims) = json!({ "aud": audience }) else {
            unreachable!()
        };
        Audiences::new(&own, &exact, "OAUTH_AUDIENCE").check(&Claims(claims))
    }

    #[test]
    fn our_addresses_are_known_in_every_form_and_others_as_they_are_written() {
        for good in [
            json!("https://box.example/mcp"),
            json!("HTTPS://Box.Example/mcp/"),
            json!("https://box.example/"),
            json!(["account", "https://box.example/mcp"]),
            json!("client"),
            json!("https://Exact.example/"),
        ] {
            assert_eq!(check(&good), Ok(()), "{good}");
        }
        for bad in [
            json!("https://box.example/MCP"),
            json!("https://box.example/mcp//"),
            json!("https://box.example.evil/mcp"),
            json!("http://box.example/mcp"),
            json!("Client"),
            json!("https://exact.example/"),
            json!(["account", 7]),
            json!([]),
            json!(""),
            json!(null),
            json!({ "https://box.example/mcp": 1 }),
        ] {
            assert!(check(&bad).is_err(), "{bad}");
        }
    }
}
