//! What is counted of the network of listed hosts. Hosts are no labels: programs choose them.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};
use strum::VariantArray as _;

use crate::egress::{DeniedReason, HostVerdict, NetworkReport};

/// What became of connections that are not denied.
const ALLOWED: &str = "allowed";
const DIRECTIONS: [&str; 2] = ["sent", "received"];
/// What becomes of secrets at a host.
const SECRETS: [&str; 2] = ["used", "reflected"];

/// What became of a connection, or of a name that was looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    verdict: &'static str,
}

/// Which way bytes went.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabels {
    direction: &'static str,
}

/// What became of secrets at a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SecretLabels {
    event: &'static str,
}

/// What runs and package clients did in the network of listed hosts.
#[derive(Debug, Default)]
pub(super) struct EgressMetrics {
    connections: Family<VerdictLabels, Counter>,
    bytes: Family<DirectionLabels, Counter>,
    secrets: Family<SecretLabels, Counter>,
}

impl EgressMetrics {
    /// All at zero, from which a rate has to start.
    pub(super) fn register(&self, ours: &mut Registry) {
        ours.register(
            "egress_connections",
            "Connections of programs and package clients to listed hosts and names looked up in vain, by what became of them",
            self.connections.clone(),
        );
        ours.register_with_unit(
            "egress",
            "Bytes that programs and package clients sent to listed hosts and received from them",
            Unit::Bytes,
            self.bytes.clone(),
        );
        ours.register(
            "egress_secrets",
            "Hosts at which runs used secrets, and those of them that sent one back",
            self.secrets.clone(),
        );
        let denied = DeniedReason::VARIANTS.iter();
        let denied = denied.filter(|reason| **reason != DeniedReason::SecretReflected);
        let denied = denied.map(DeniedReason::into_str);
        for verdict in denied.chain([ALLOWED]) {
            self.connections
                .get_or_create_owned(&VerdictLabels { verdict });
        }
        for event in SECRETS {
            self.secrets.get_or_create_owned(&SecretLabels { event });
        }
        for direction in DIRECTIONS {
            self.bytes
                .get_or_create_owned(&DirectionLabels { direction });
        }
    }

    /// Adds what one run did.
    pub(super) fn count(&self, report: &NetworkReport) {
        for host in &report.hosts {
            let reflected = host.reason == Some(DeniedReason::SecretReflected);
            let verdict = match host.reason {
                Some(reason) if host.verdict == HostVerdict::Denied => reason.into_str(),
                _ => ALLOWED,
            };
            let labels = VerdictLabels { verdict };
            let connections = self.connections.get_or_create_owned(&labels);
            connections.inc_by(host.connections + host.lookups);
            for (event, is_so) in SECRETS
                .into_iter()
                .zip([!host.secrets.is_empty(), reflected])
            {
                let labels = SecretLabels { event };
                let secrets = self.secrets.get_or_create_owned(&labels);
                secrets.inc_by(u64::from(is_so));
            }
            for (direction, bytes) in DIRECTIONS
                .into_iter()
                .zip([host.sent_bytes, host.received_bytes])
            {
                let labels = DirectionLabels { direction };
                self.bytes.get_or_create_owned(&labels).inc_by(bytes);
            }
        }
    }
}
