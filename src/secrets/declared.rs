//! A secret as the operator declares it.

use hyper::Method;
use hyper::header::HeaderName;
use secrecy::SecretString;

use super::bound::{BoundSecret, PathPattern};
use super::placeholder::PlaceholderKey;
use super::value::{Source, ValueFlaw};
use crate::allow_list::{AllowList, HostName};
use crate::principal::{Name, Tenant};

/// A secret, without its value.
#[derive(Clone, Debug)]
pub struct DeclaredSecret {
    /// What the operator calls it.
    pub name: Name,
    /// The variable that programs find its placeholder in, by which they ask for it.
    pub variable: String,
    pub(super) source: Source,
    pub(super) hosts: Vec<HostName>,
    pub(super) header: HeaderName,
    pub(super) methods: Vec<Method>,
    pub(super) paths: Vec<PathPattern>,
    pub(super) prefix: String,
    pub(super) tenants: Vec<Tenant>,
}

impl DeclaredSecret {
    /// Those of its hosts that programs reach by TLS which have this list.
    pub fn hosts_in<'a>(&'a self, list: &'a AllowList) -> impl Iterator<Item = &'a HostName> {
        self.hosts.iter().filter(|host| list.has_tls(host))
    }

    pub(super) fn hosts_in_words(&self) -> String {
        let hosts: Vec<_> = self.hosts.iter().map(HostName::as_str).collect();
        hosts.join(", ")
    }

    /// What it is now.
    pub(super) fn value(&self) -> Result<SecretString, ValueFlaw> {
        self.source.read(&self.prefix)
    }

    pub(super) fn bound(
        &self,
        key: &PlaceholderKey,
        conversation: &str,
        value: SecretString,
        hosts: Vec<HostName>,
    ) -> BoundSecret {
        let name = self.name.as_str();
        BoundSecret {
            variable: self.variable.clone(),
            placeholder: key.placeholder(conversation, name, &value, &self.prefix),
            value,
            hosts,
            header: self.header.clone(),
            methods: self.methods.clone(),
            paths: self.paths.clone(),
        }
    }
}

/// One line for an operator: what it is called, where its value is, and who finds it where.
impl std::fmt::Display for DeclaredSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenants: Vec<_> = self.tenants.iter().map(Tenant::name).collect();
        write!(
            formatter,
            "{}: {} for {}, from {}, for the tenants {}",
            self.name,
            self.variable,
            self.hosts_in_words(),
            self.source,
            tenants.join(", "),
        )
    }
}
