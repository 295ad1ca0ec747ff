//! What the operator sees of those who may call: tenants with their tokens, never a token or its hash.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

use super::file::Book;
use super::{Access, TenantLimits};
use crate::principal::Tenant;
use crate::scope::Scopes;

/// What the token of the setting is called, which no token of the file can be.
const API_TOKEN: &str = "MCP_API_TOKEN";
/// What stands for no time.
const NEVER: i64 = i64::MIN;

/// A tenant that the settings name.
#[derive(Clone, Debug, Default)]
pub struct KnownTenant {
    /// Its tokens: by name, those of one name by when they expire.
    pub tokens: Vec<KnownToken>,
    /// What it may have.
    pub limits: Arc<TenantLimits>,
}

/// A token, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownToken {
    /// Its name, or `MCP_API_TOKEN`.
    pub name: String,
    /// From when on it is not taken any more.
    pub expires: Option<Timestamp>,
    /// What it lets its holder do.
    pub scopes: Scopes,
    /// When it was taken last since the start of the server.
    pub last_use: Option<Timestamp>,
}

/// When a token was taken last, in whole seconds. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct LastUse(Arc<AtomicI64>);

impl Default for LastUse {
    fn default() -> Self {
        Self(Arc::new(NEVER.into()))
    }
}

impl LastUse {
    pub(super) fn note(&self) {
        let now = Timestamp::now().as_second();
        self.0.store(now, Ordering::Relaxed);
    }

    fn get(&self) -> Option<Timestamp> {
        // What stands for no time is before all that can be told.
        Timestamp::from_second(self.0.load(Ordering::Relaxed)).ok()
    }
}

impl Access {
    /// All tenants that the settings name, and that of `MCP_API_TOKEN`.
    pub fn tenants(&self) -> BTreeMap<Tenant, KnownTenant> {
        let mut tenants = self.shared.state.read().book.tenants();
        let default = tenants.entry(Tenant::Default).or_default();
        if self.shared.api_token.is_some() {
            let token = KnownToken {
                name: API_TOKEN.to_owned(),
                expires: None,
                scopes: Scopes::ALL,
                last_use: self.shared.api_token_use.get(),
            };
            default.tokens.insert(0, token);
        }
        tenants
    }
}

impl Book {
    fn tenants(&self) -> BTreeMap<Tenant, KnownTenant> {
        let with_limits = self.limits.iter().map(|(tenant, limits)| {
            let limits = Arc::clone(limits);
            let tokens = Vec::new();
            (tenant.clone(), KnownTenant { tokens, limits })
        });
        let mut tenants: BTreeMap<_, _> = with_limits.collect();
        for (_, entry) in self.sorted() {
            let tenant = tenants.entry(entry.principal.tenant().clone());
            tenant.or_default().tokens.push(KnownToken {
                name: entry.name.to_string(),
                expires: entry.expires,
                scopes: entry.scopes,
                last_use: entry.last_use.get(),
            });
        }
        tenants
    }
}
