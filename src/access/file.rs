//! What is in `ACCESS_FILE`: tenants, and the hashes of their tokens.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;
use toml_edit::Datetime;

use super::AccessError;
use super::secret::TokenHash;
use crate::principal::{Name, Principal, Tenant};

/// More is not read: 10,000 tenants with a token each take a quarter of it.
const MAX_BYTES: u64 = 8 << 20;

/// Who has which token.
#[derive(Debug, Default)]
pub(super) struct Book(HashMap<TokenHash, Entry>);

/// A token.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: Name,
    pub(super) principal: Principal,
    /// From when on it is not taken any more.
    pub(super) expires: Option<Timestamp>,
}

impl Entry {
    pub(super) fn is_expired(&self) -> bool {
        self.expires
            .is_some_and(|expires| expires <= Timestamp::now())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    tenant: Vec<TenantTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TenantTable {
    name: String,
    #[serde(default)]
    token: Vec<TokenTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenTable {
    name: String,
    sha256: String,
    expires: Option<Datetime>,
}

impl Book {
    /// What a text says.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(super) fn parse(text: &str) -> Result<Self, AccessError> {
        let document: Document = toml_edit::de::from_str(text)
            .map_err(|error| AccessError::Form(error.to_string().trim_end().to_owned()))?;
        let (mut entries, mut tenants) = (HashMap::new(), HashSet::new());
        for TenantTable { name, token } in document.tenant {
            let tenant = parse_name(&name)?;
            if !tenants.insert(tenant.clone()) {
                return Err(AccessError::Form(format!(
                    "there are two tenants with the name {name}: give all of its tokens to one of them"
                )));
            }
            for table in token {
                let (hash, entry) = read_token(&tenant, &table)?;
                if entries.insert(hash, entry).is_some() {
                    return Err(AccessError::Form(format!(
                        "the token {} of {name} is there twice, and it belongs to one: remove the other",
                        table.name
                    )));
                }
            }
        }
        Ok(Self(entries))
    }

    /// What an open file says. Whoever may write it lets others in, and whoever may read it learns their names: it has
    /// to be its owner's alone.
    ///
    /// # Errors
    /// It is open to others, it cannot be read, or what is wrong with it.
    pub(super) fn read(mut file: &File, path: &Path) -> Result<Self, AccessError> {
        let unreadable = |source| AccessError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let facts = file.metadata().map_err(unreadable)?;
        let mode = facts.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = path.to_owned();
            return Err(AccessError::OpenToOthers { path, mode });
        }
        if facts.len() > MAX_BYTES {
            return Err(AccessError::Form(format!(
                "it has {} bytes, the limit is {MAX_BYTES}: remove tokens that are not used any more",
                facts.len()
            )));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(unreadable)?;
        Self::parse(&text)
    }

    /// Who has a token.
    pub(super) fn find(&self, token: &str) -> Option<&Entry> {
        self.0.get(&TokenHash::of(token))
    }

    /// All tokens: by tenant, name and hash.
    pub(super) fn sorted(&self) -> Vec<(TokenHash, &Entry)> {
        let mut all: Vec<_> = self.0.iter().map(|(hash, entry)| (*hash, entry)).collect();
        all.sort_by_key(|(hash, entry)| {
            let tenant = entry.principal.tenant().name();
            (tenant.to_owned(), entry.name.clone(), hash.to_string())
        });
        all
    }
}

fn read_token(tenant: &Name, table: &TokenTable) -> Result<(TokenHash, Entry), AccessError> {
    let name = parse_name(&table.name)?;
    let flawed =
        |what: String| AccessError::Form(format!("the token {name} of {tenant} has {what}"));
    let hash = table.sha256.parse::<TokenHash>().map_err(|error| {
        flawed(format!(
            "a `sha256` that is not one ({error}): make a token with `mcp-code-sandbox token new`"
        ))
    })?;
    if hash == TokenHash::of("") {
        return Err(flawed("the hash of nothing as its `sha256`".to_owned()));
    }
    let expires = table.expires.map(|date| {
        timestamp(&date.to_string()).ok_or_else(|| {
            flawed(format!(
                "an `expires` without a date, {date}: write 2027-01-01 or 2027-01-01T12:00:00Z"
            ))
        })
    });
    let expires = expires.transpose()?;
    let principal = Principal::named(Tenant::of(tenant.clone()), &name);
    let entry = Entry {
        name: name.clone(),
        principal,
        expires,
    };
    Ok((hash, entry))
}

fn parse_name(name: &str) -> Result<Name, AccessError> {
    name.parse()
        .map_err(|error| AccessError::Form(format!("{name:?} is no name: {error}")))
}

/// A date or a time, which is that of UTC unless it says otherwise.
pub(super) fn timestamp(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let local: DateTime = text.parse().ok()?;
    // What is later than all that can be told, such as the last day of 9999, never comes.
    Some(TimeZone::UTC.to_timestamp(local).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests;
