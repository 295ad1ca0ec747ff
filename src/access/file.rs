//! What is in `ACCESS_FILE`: tenants, and the hashes of their tokens.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;
use toml_edit::Datetime;

use super::AccessError;
use super::limits::{NetworkLimits, TenantLimits};
use super::overview::LastUse;
use super::secret::TokenHash;
use crate::allow_list::Listing;
use crate::config::NetworkMode;
use crate::principal::{Name, Principal, Tenant};
use crate::private_file;
use crate::scope::Scopes;
use crate::units::parse_size;

/// More is not read: 10,000 tenants with a token each take a quarter of it.
const MAX_BYTES: u64 = 8 << 20;

/// The least that a tenant may be given to keep.
const MIN_STORAGE: u64 = 1 << 20;

/// Who has which token, and which tenant may have what.
#[derive(Debug, Default)]
pub(super) struct Book {
    tokens: HashMap<TokenHash, Entry>,
    pub(super) limits: HashMap<Tenant, Arc<TenantLimits>>,
    /// Until when somebody has a token: the last of several counts.
    callers: HashMap<Principal, Lasts>,
}

/// How long somebody has a token. The later it ends, the greater it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lasts {
    Until(Timestamp),
    ForEver,
}

/// A token.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: Name,
    pub(super) principal: Principal,
    /// From when on it is not taken any more.
    pub(super) expires: Option<Timestamp>,
    /// What it lets its holder do.
    pub(super) scopes: Scopes,
    pub(super) last_use: LastUse,
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
    max_runs: Option<usize>,
    max_kernels: Option<usize>,
    rate_limit: Option<String>,
    storage_limit: Option<String>,
    workspace_quota: Option<String>,
    languages: Option<BTreeSet<String>>,
    network: Option<NetworkValue>,
    network_allow: Option<Vec<String>>,
}

/// Whether there is a network, or which.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "`network` is true, false, \"off\", \"listed\" or \"open\""
)]
enum NetworkValue {
    Is(bool),
    Mode(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenTable {
    name: String,
    sha256: String,
    expires: Option<Datetime>,
    scopes: Option<Vec<String>>,
}

impl Book {
    /// What a text says.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(super) fn parse(text: &str) -> Result<Self, AccessError> {
        let document: Document = toml_edit::de::from_str(text)
            .map_err(|error| AccessError::Form(error.to_string().trim_end().to_owned()))?;
        let mut book = Self::default();
        for mut table in document.tenant {
            let name = parse_name(&table.name)?;
            for token in std::mem::take(&mut table.token) {
                let (hash, entry) = read_token(&name, &token)?;
                let lasts = entry.expires.map_or(Lasts::ForEver, Lasts::Until);
                let known = book.callers.entry(entry.principal.clone());
                let longest = known.or_insert(lasts);
                *longest = lasts.max(*longest);
                if book.tokens.insert(hash, entry).is_some() {
                    return Err(AccessError::Form(format!(
                        "the token {} of {name} is there twice, and it belongs to one: remove the other",
                        token.name
                    )));
                }
            }
            let limits = Arc::new(read_limits(&name, table)?);
            let tenant = Tenant::of(name.clone());
            if book.limits.insert(tenant, limits).is_some() {
                return Err(AccessError::Form(format!(
                    "there are two tenants with the name {name}: give all of its tokens to one of them"
                )));
            }
        }
        Ok(book)
    }

    /// The same where nobody has a token.
    pub(super) fn without_tokens(&self) -> Self {
        Self {
            limits: self.limits.clone(),
            ..Self::default()
        }
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
        if let Some(mode) = private_file::mode_open_to_others(&facts) {
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

    /// Remembers when tokens were used that were there before.
    pub(super) fn keep_uses(&mut self, before: &Self) {
        for (hash, entry) in &mut self.tokens {
            if let Some(known) = before.tokens.get(hash) {
                entry.last_use = known.last_use.clone();
            }
        }
    }

    /// How many bytes the conversations of tenants may take, of those that have a limit.
    pub(super) fn storage_limits(&self) -> Vec<(Tenant, u64)> {
        let limits = self.limits.iter();
        limits
            .filter_map(|(tenant, limits)| Some((tenant.clone(), limits.storage?)))
            .collect()
    }

    /// Who has a token.
    pub(super) fn find(&self, token: &str) -> Option<&Entry> {
        self.get(&TokenHash::of(token))
    }

    /// Who has the token of a hash.
    pub(super) fn get(&self, hash: &TokenHash) -> Option<&Entry> {
        self.tokens.get(hash)
    }

    /// What a tenant may have.
    pub(super) fn limits(&self, tenant: &Tenant) -> Arc<TenantLimits> {
        self.limits.get(tenant).cloned().unwrap_or_default()
    }

    /// Whether somebody has a token that counts.
    pub(super) fn has(&self, caller: &Principal) -> bool {
        match self.callers.get(caller) {
            None => false,
            Some(Lasts::ForEver) => true,
            Some(Lasts::Until(end)) => *end > Timestamp::now(),
        }
    }

    /// All tokens: by tenant, name and hash.
    pub(super) fn sorted(&self) -> Vec<(TokenHash, &Entry)> {
        let mut all: Vec<_> = self
            .tokens
            .iter()
            .map(|(hash, entry)| (*hash, entry))
            .collect();
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
    let scopes = read_scopes(table).map_err(flawed)?;
    let principal = Principal::named(Tenant::of(tenant.clone()), &name);
    let entry = Entry {
        name: name.clone(),
        principal,
        expires,
        scopes,
        last_use: LastUse::default(),
    };
    Ok((hash, entry))
}

/// What a token lets its holder do, or what is wrong with that.
fn read_scopes(table: &TokenTable) -> Result<Scopes, String> {
    let Some(words) = &table.scopes else {
        return Ok(Scopes::ALL);
    };
    let each = words.iter().map(|word| word.parse::<Scopes>());
    let each = each.collect::<Result<Vec<_>, _>>();
    let each = each.map_err(|error| format!("`scopes` that are none: {error}"))?;
    let union = each.into_iter().reduce(Scopes::union);
    union.ok_or_else(|| "no `scopes`: name some, or leave the line out".to_owned())
}

fn read_limits(tenant: &Name, table: TenantTable) -> Result<TenantLimits, AccessError> {
    let flawed = |what: &str| AccessError::Form(format!("the tenant {tenant} has {what}"));
    if table.max_runs == Some(0) {
        return Err(flawed(
            "`max_runs = 0`: give it 1 or more, or take its tokens away",
        ));
    }
    if table.max_kernels == Some(0) {
        return Err(flawed(
            "`max_kernels = 0`: give it 1 or more, or leave the line out",
        ));
    }
    let rate = table.rate_limit.map(|rate| {
        rate.parse()
            .map_err(|error| flawed(&format!("a `rate_limit` that is none, {rate:?}: {error}")))
    });
    let size = |name: &str, size: Option<String>| {
        let Some(size) = size else { return Ok(None) };
        let bytes = parse_size(&size).filter(|bytes| *bytes >= MIN_STORAGE);
        bytes.map(Some).ok_or_else(|| {
            flawed(&format!(
                "a `{name}` that is none, {size:?}: write a size of at least 1m, such as `512m` or `20g`"
            ))
        })
    };
    if table.languages.as_ref().is_some_and(BTreeSet::is_empty) {
        return Err(flawed("no `languages`: name some, or leave the line out"));
    }
    let mode = table.network.map(|network| match network {
        NetworkValue::Is(false) => Ok(Some(NetworkMode::Off)),
        NetworkValue::Is(true) => Ok(None),
        NetworkValue::Mode(mode) => NetworkMode::parse(&mode).map(Some).ok_or_else(|| {
            flawed(&format!(
                "a `network` that is none, {mode:?}: write off, listed or open"
            ))
        }),
    });
    let mode = mode.transpose()?.flatten();
    let allow = table.network_allow.map(|hosts| {
        let list = Listing::parse(hosts.iter().map(String::as_str));
        list.map(Arc::new)
            .map_err(|error| flawed(&format!("a `network_allow` that is no list: {error}")))
    });
    let allow = allow.transpose()?;
    Ok(TenantLimits {
        max_runs: table.max_runs,
        max_kernels: table.max_kernels,
        rate: rate.transpose()?,
        storage: size("storage_limit", table.storage_limit)?,
        quota: size("workspace_quota", table.workspace_quota)?,
        languages: table.languages,
        network: NetworkLimits { mode, allow },
    })
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
