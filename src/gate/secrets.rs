//! Which secrets a run gets: those that it asks for out of those that its tenant may use.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::network::{Asked, Reach};
use super::{Gate, GateError};
use crate::allow_list::AllowList;
use crate::conversation::Conversation;
use crate::egress::HostAccess;
use crate::executor::spec::NetworkAccess;
use crate::principal::Tenant;
use crate::secrets::{self, DeclaredSecret, SecretError};

impl Gate {
    /// The secrets that programs of a tenant may use, as its hosts are listed now.
    pub(crate) fn granted_secrets(&self, tenant: &Tenant) -> Vec<Arc<DeclaredSecret>> {
        match self.network.reach(&self.access.limits(tenant).network) {
            Reach::Listed(list) => self.secrets.granted(tenant, &list),
            Reach::Nothing | Reach::Internet => Vec::new(),
        }
    }

    /// What a run may reach that asks for the network, with the secrets that it may use there.
    pub(super) async fn network_for(
        &self,
        conversation: &Conversation,
        asked: &Asked,
    ) -> Result<NetworkAccess, GateError> {
        let tenant = conversation.tenant();
        // First: nothing has to be found out for it.
        let secrets = if asked.secrets.is_empty() {
            Vec::new()
        } else {
            secrets::chosen(&self.granted_secrets(tenant), &asked.secrets)?
        };
        let limits = self.access.limits(tenant);
        let network = self.network.for_run(&limits.network, asked).await;
        match network.map_err(GateError::Network)? {
            NetworkAccess::Listed(access) if !secrets.is_empty() => {
                // They are for hosts that the operator has listed, whatever a person has allowed.
                let list = match self.network.reach(&limits.network) {
                    Reach::Listed(listed) => access.list.within(&listed),
                    Reach::Nothing | Reach::Internet => AllowList::default(),
                };
                let bound = self.bound(conversation, secrets, access, list).await?;
                Ok(NetworkAccess::Listed(bound))
            }
            network => Ok(network),
        }
    }

    async fn bound(
        &self,
        conversation: &Conversation,
        secrets: Vec<Arc<DeclaredSecret>>,
        access: Arc<HostAccess>,
        list: AllowList,
    ) -> Result<Arc<HostAccess>, SecretError> {
        let (all, key) = (self.secrets.clone(), conversation.key().clone());
        // Their values are in files, of which nobody knows where they are.
        let bound = spawn_blocking(move || all.bind(key.as_str(), &secrets, &list)).await;
        let secrets = bound.map_err(|_| SecretError::Failed)??;
        let list = Arc::clone(&access.list);
        Ok(Arc::new(HostAccess { list, secrets }))
    }
}
