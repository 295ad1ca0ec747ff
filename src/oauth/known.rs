//! Somebody for whom an issuer vouches.

use super::claims::Claims;
use crate::principal::Principal;
use crate::scope::Rights;

/// Claims by which people know themselves, the best first (`OpenID` Connect Core, section 5.1; RFC 7662, section 2.2).
const NAMES: &[&str] = &["email", "preferred_username", "username", "name"];

/// Characters of a name that are kept.
const MAX_NAME: usize = 100;

/// Who has a token or an assertion that counts.
#[derive(Clone, Debug)]
pub struct Known {
    /// The caller.
    pub caller: Principal,
    /// What it lets them do.
    pub rights: Rights,
    /// What the issuer calls them. It is for them to read: others may have the same name.
    pub name: String,
    /// When it expires, in seconds since 1970.
    pub expires: Option<u64>,
}

impl Known {
    pub(super) fn new(caller: Principal, rights: Rights, subject: &str, claims: &Claims) -> Self {
        let names = NAMES.iter().filter_map(|name| claims.text(name));
        let mut names = names.filter(|name| !name.trim().is_empty());
        Self {
            caller,
            rights,
            name: shown(names.next().unwrap_or(subject)),
            expires: claims.expires(),
        }
    }
}

fn shown(name: &str) -> String {
    let signs = name.chars().filter(|sign| !sign.is_control());
    signs.take(MAX_NAME).collect()
}
