//! What is kept: conversations by their keys, and what belongs to each.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use strum::{EnumString, IntoStaticStr, VariantNames};
use tracing::info;

use super::page::{Place, page};
use super::{Admin, AdminError, PageQuery, shown};
use crate::audit::{ByOperator, Event, Operator};
use crate::conversation::ConversationKey;
use crate::files::FileList;
use crate::principal::{Name, Tenant};
use crate::workspace::Overview;

/// The order of conversations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "camelCase")]
pub enum Sort {
    /// That which was used last comes first.
    #[default]
    LastUsed,
    /// The largest comes first.
    Size,
    /// By key, which never changes.
    Key,
}

/// Which conversations are wanted.
#[derive(Clone, Debug)]
pub struct ConversationQuery {
    /// Only those of this one.
    pub tenant: Option<Name>,
    /// In which order.
    pub sort: Sort,
    /// Which part of the list.
    pub page: PageQuery,
}

/// A page of conversations.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationList {
    conversations: Vec<ConversationRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A conversation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConversationRow {
    key: String,
    tenant: String,
    created_at: Option<String>,
    last_used_at: Option<String>,
    stored_bytes: Option<u64>,
    warm_sandboxes: usize,
    kernels: Vec<String>,
    active_runs: usize,
}

/// A conversation with its files.
#[derive(Clone, Debug, Serialize)]
pub struct ConversationDetail {
    #[serde(flatten)]
    row: ConversationRow,
    #[serde(flatten)]
    files: FileList,
}

/// What conversations have in memory.
struct Live {
    warm: HashMap<ConversationKey, usize>,
    kernels: HashMap<ConversationKey, Vec<String>>,
    runs: HashMap<ConversationKey, usize>,
}

impl Live {
    fn row(&mut self, overview: &Overview) -> ConversationRow {
        let key = &overview.key;
        ConversationRow {
            key: key.to_string(),
            tenant: overview.tenant.name().to_owned(),
            created_at: overview.created.map(shown),
            last_used_at: overview.used.map(shown),
            stored_bytes: overview.bytes,
            warm_sandboxes: self.warm.remove(key).unwrap_or_default(),
            kernels: self.kernels.remove(key).unwrap_or_default(),
            active_runs: self.runs.remove(key).unwrap_or_default(),
        }
    }
}

impl Sort {
    fn place(self, overview: &Overview) -> Place {
        let number = match self {
            Self::LastUsed => overview.used.map(nanoseconds),
            Self::Size => overview.bytes,
            Self::Key => None,
        };
        Place::new(number.unwrap_or_default(), overview.key.as_str())
    }
}

impl Admin {
    /// A page of the conversations. Their files are not looked at.
    ///
    /// # Errors
    /// The cursor is none of ours, or something cannot be read.
    pub async fn conversations(
        &self,
        query: &ConversationQuery,
    ) -> Result<ConversationList, AdminError> {
        let mut all = self.conversations.files.workspaces.overviews().await?;
        if let Some(name) = &query.tenant {
            all.retain(|each| each.tenant.name() == name.as_str());
        }
        let (some, next_cursor) = page(
            query.sort.into(),
            all,
            |each| query.sort.place(each),
            &query.page,
        )?;
        let mut live = self.live();
        Ok(ConversationList {
            conversations: some.iter().map(|each| live.row(each)).collect(),
            next_cursor,
        })
    }

    /// A conversation with its first files.
    ///
    /// # Errors
    /// There is none of that key, or it cannot be read.
    pub async fn conversation(
        &self,
        key: &ConversationKey,
    ) -> Result<ConversationDetail, AdminError> {
        let overview = self.conversations.files.workspaces.overview(key).await?;
        let overview = overview.ok_or_else(|| AdminError::NoConversation(key.clone()))?;
        Ok(ConversationDetail {
            files: self
                .conversations
                .files
                .list_for_operator(&overview.key)
                .await?,
            row: self.live().row(&overview),
        })
    }

    /// Ends the runs of a conversation, its kernels and its sandboxes, and deletes its files.
    ///
    /// # Errors
    /// There is none of that key, it cannot be recorded though that is required, or trouble with the storage.
    pub async fn delete(
        &self,
        operator: &Operator,
        key: &ConversationKey,
    ) -> Result<(), AdminError> {
        let found = self.current(key).await?;
        let (key, tenant) = found.ok_or_else(|| AdminError::NoConversation(key.clone()))?;
        let change = self
            .conversations
            .audit
            .change(|| Event::AdminConversationDeleted {
                by: ByOperator::of(operator),
                tenant: tenant.name().to_owned(),
                conversation: key.short().to_owned(),
                unsure: false,
            });
        // Dropped after an error, it is recorded as unsure.
        let change = change.await?;
        // One that the gate does not know yet would make the directory again.
        self.ledger.end_those(|run| *run.conversation.key() == key);
        self.conversations.clear(&key).await?;
        change.end(true);
        info!(
            tenant = tenant.name(),
            conversation = key.short(),
            "the operator deleted a conversation"
        );
        Ok(())
    }

    /// The key that a conversation has now, and whose it is: one that has files, or runs which may make some.
    async fn current(
        &self,
        key: &ConversationKey,
    ) -> Result<Option<(ConversationKey, Tenant)>, AdminError> {
        if let Some(overview) = self.conversations.files.workspaces.overview(key).await? {
            return Ok(Some((overview.key, overview.tenant)));
        }
        let mut runs = self.ledger.under_way().into_iter();
        let run = runs.find(|run| run.conversation.key() == key);
        Ok(run.map(|run| (key.clone(), run.owner.tenant().clone())))
    }

    fn live(&self) -> Live {
        Live {
            warm: self.conversations.pool.kept(),
            kernels: self.conversations.kernels.languages(),
            runs: self.active_runs(),
        }
    }
}

/// Nanoseconds of Unix time, which fit for 500 years.
fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
