//! What a program with listed hosts has of the network.

use std::sync::Arc;

use crate::allow_list::AllowList;
use crate::secrets::BoundSecret;

/// The hosts that a program reaches by name, and the secrets that it can use there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAccess {
    /// The hosts.
    pub list: Arc<AllowList>,
    /// The secrets, each for some of them.
    pub secrets: Arc<[BoundSecret]>,
}

impl HostAccess {
    /// These hosts without secrets.
    pub fn to(list: Arc<AllowList>) -> Arc<Self> {
        Arc::new(Self {
            list,
            secrets: Arc::default(),
        })
    }

    /// The names of the variables of its secrets, for people.
    pub fn secrets_in_words(&self) -> String {
        let names: Vec<_> = self.secrets.iter().map(|it| it.variable.as_str()).collect();
        names.join(", ")
    }
}
