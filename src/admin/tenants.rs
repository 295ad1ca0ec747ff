//! Who uses the server.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use utoipa::ToSchema;

use super::page::{Place, page};
use super::{Admin, AdminError, PageQuery, shown_timestamp};
use crate::access::{KnownTenant, KnownToken, TenantLimits};
use crate::principal::Tenant;
use crate::scope::Scopes;

/// A page of the tenants.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantList {
    tenants: Vec<TenantRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A tenant, and what it has and uses.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantRow {
    name: String,
    tokens: Vec<TokenRow>,
    limits: Limits,
    conversations: usize,
    stored_bytes: u64,
    active_runs: usize,
    runs_24h: u64,
    cpu_ms_24h: u64,
}

/// A token, by its name.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenRow {
    name: String,
    scopes: Scopes,
    expires_at: Option<String>,
    last_used_at: Option<String>,
}

/// What a tenant may have of the server; null: what the server has.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Runs at the same time.
    max_runs: Option<usize>,
    /// Kernels of stateful runs at the same time.
    max_kernels: Option<usize>,
    /// Requests of all of its callers, such as `300/m`.
    rate_limit: Option<String>,
    /// Bytes that its conversations may take.
    storage_limit: Option<u64>,
    /// Bytes that one of its conversations may take.
    workspace_quota: Option<u64>,
    /// The languages that it may use.
    languages: Option<BTreeSet<String>>,
    /// Whether its programs may use the network, as far as the server has one.
    network: bool,
}

/// What is counted of a tenant without its files.
#[derive(Default)]
struct Found {
    known: KnownTenant,
    conversations: usize,
    stored_bytes: u64,
    active_runs: usize,
}

impl Admin {
    /// A page of those who may use the server, or have conversations: by name.
    ///
    /// # Errors
    /// The cursor is none of ours, or something cannot be read.
    pub async fn tenants(&self, query: &PageQuery) -> Result<TenantList, AdminError> {
        let found = self.found().await?;
        let place = |(tenant, _): &(Tenant, Found)| Place::new(0, tenant.name());
        let (found, next_cursor) = page("tenants", found, place, query)?;
        let used = self.conversations.tally.last_day().await;
        let used = used.map_err(AdminError::Tally)?;
        let rows = found.into_iter().map(|(tenant, found)| {
            let used = used.get(tenant.name()).copied().unwrap_or_default();
            TenantRow {
                name: tenant.name().to_owned(),
                tokens: found.known.tokens.into_iter().map(TokenRow::of).collect(),
                limits: Limits::from(&*found.known.limits),
                conversations: found.conversations,
                stored_bytes: found.stored_bytes,
                active_runs: found.active_runs,
                runs_24h: used.runs,
                cpu_ms_24h: used.cpu_ms,
            }
        });
        Ok(TenantList {
            tenants: rows.collect(),
            next_cursor,
        })
    }

    async fn found(&self) -> Result<BTreeMap<Tenant, Found>, AdminError> {
        let known = self.conversations.gate.access.tenants().into_iter();
        let known = known.map(|(tenant, known)| {
            let found = Found {
                known,
                ..Found::default()
            };
            (tenant, found)
        });
        let mut all: BTreeMap<_, _> = known.collect();
        for each in self.conversations.files.workspaces.overviews().await? {
            let found = all.entry(each.tenant).or_default();
            found.conversations += 1;
            found.stored_bytes += each.bytes.unwrap_or_default();
        }
        for run in self.ledger.under_way() {
            let found = all.entry(run.owner.tenant().clone()).or_default();
            found.active_runs += 1;
        }
        Ok(all)
    }
}

impl TokenRow {
    fn of(token: KnownToken) -> Self {
        Self {
            name: token.name,
            scopes: token.scopes,
            expires_at: token.expires.map(shown_timestamp),
            last_used_at: token.last_use.map(shown_timestamp),
        }
    }
}

impl From<&TenantLimits> for Limits {
    fn from(limits: &TenantLimits) -> Self {
        Self {
            max_runs: limits.max_runs,
            max_kernels: limits.max_kernels,
            rate_limit: limits.rate.map(|rate| rate.to_string()),
            storage_limit: limits.storage,
            workspace_quota: limits.quota,
            languages: limits.languages.clone(),
            network: limits.network.may_be_used(),
        }
    }
}
