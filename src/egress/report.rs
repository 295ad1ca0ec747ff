//! What a run did in the network, as it is told: in its outcome, in the audit log, and in one line for a model.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

/// Most hosts in the line for a model.
const MAX_TOLD: usize = 8;
/// In place of a name that DNS could not have.
pub(crate) const INVALID: &str = "(invalid)";

/// What became of what a program wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostVerdict {
    /// It was connected.
    Allowed,
    /// It was not.
    Denied,
}

/// Why it was not.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    JsonSchema,
    ToSchema,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum DeniedReason {
    /// The host is not listed.
    NotListed,
    /// The connection is for another host than it was made to.
    SniMismatch,
    /// It does not say for which host it is.
    NoSni,
    /// It does not begin with TLS.
    NotTls,
    /// A request is for another host than its connection was made to.
    HostMismatch,
    /// The name leads to no public address.
    PrivateAddress,
    /// The name leads nowhere.
    Unresolvable,
    /// The host does not answer.
    Unreachable,
    /// The program or the host does not take the other's certificate, or speaks no TLS that both can.
    TlsFailed,
    /// A secret is for other requests than this one.
    SecretRefused,
    /// The host has packed its answer or sent a part, so that it cannot be searched for secrets.
    Unsearchable,
    /// It was too much for one run.
    Limit,
    /// The host sent a secret back, in whose place the program was given the placeholder. Nothing else was denied.
    SecretReflected,
}

/// One host that a program reached or wanted to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostTraffic {
    /// Its name, or `(invalid)` for what is none.
    pub host: String,
    /// The port; missing where only its name was looked up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// What became of it.
    pub verdict: HostVerdict,
    /// Why it was denied, or what of it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<DeniedReason>,
    /// Connections made or refused.
    #[serde(skip_serializing_if = "is_zero")]
    pub connections: u64,
    /// How often its name was looked up in vain.
    #[serde(skip_serializing_if = "is_zero")]
    pub lookups: u64,
    /// Bytes that it was sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub sent_bytes: u64,
    /// The variables of the secrets that were used there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Bytes that came back.
    #[serde(skip_serializing_if = "is_zero")]
    pub received_bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What a run did in the network of listed hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkReport {
    /// Each host, in the order of names.
    pub hosts: Vec<HostTraffic>,
    /// Whether there were more than these.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl NetworkReport {
    /// A host that was looked up and is not listed.
    pub(crate) fn unlisted(&self) -> Option<&str> {
        let is_unlisted = |host: &&HostTraffic| {
            host.reason == Some(DeniedReason::NotListed) && host.host != INVALID
        };
        self.hosts.iter().find(is_unlisted).map(|host| &*host.host)
    }
}

/// One line: what was reached, then what was not and why.
impl fmt::Display for NetworkReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |verdict: HostVerdict, tell: &dyn Fn(&HostTraffic) -> String| {
            let hosts = self.hosts.iter().filter(|host| host.verdict == verdict);
            let mut told: Vec<_> = hosts.map(tell).collect();
            let more = told.len().saturating_sub(MAX_TOLD);
            told.truncate(MAX_TOLD);
            let more = (more > 0 || self.truncated).then(|| "and more".to_owned());
            let told: Vec<_> = if told.is_empty() {
                told
            } else {
                told.into_iter().chain(more).collect()
            };
            told.join(", ")
        };
        let allowed = told(HostVerdict::Allowed, &|host| {
            let s = if host.connections == 1 { "" } else { "s" };
            let with = match &host.secrets[..] {
                [] => String::new(),
                secrets => format!(" with {}", secrets.join(" and ")),
            };
            let reflected = match host.reason {
                Some(DeniedReason::SecretReflected) => " (it sent a secret back, which was hidden)",
                _ => "",
            };
            format!(
                "{} {} connection{s}{with}{reflected}",
                host.host, host.connections
            )
        });
        let denied = told(HostVerdict::Denied, &|host| {
            let reason = host.reason.map_or("", |reason| reason.into_str());
            format!("{} ({})", host.host, reason.replace('_', " "))
        });
        match (allowed.as_str(), denied.as_str()) {
            ("", "") => formatter.write_str("network: nothing was reached or asked for"),
            (_, "") => write!(formatter, "network: {allowed}"),
            ("", _) => write!(formatter, "network: denied: {denied}"),
            _ => write!(formatter, "network: {allowed}; denied: {denied}"),
        }
    }
}
