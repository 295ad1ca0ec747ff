//! What is counted of the network of listed hosts. Hosts are no labels: programs choose them.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};
use strum::VariantArray as _;

use crate::egress::{DeniedReason, NetworkReport};

/// What became of connections that are not denied.
const ALLOWED: &str = "allowed";
const DIRECTIONS: [&str; 2] = ["sent", "received"];

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

/// What runs did in the network of listed hosts.
#[derive(Debug, Default)]
pub(super) struct EgressMetrics {
    connections: Family<VerdictLabels, Counter>,
    bytes: Family<DirectionLabels, Counter>,
}

impl EgressMetrics {
    /// All at zero, from which a rate has to start.
    pub(super) fn register(&self, ours: &mut Registry) {
        ours.register(
            "egress_connections",
            "Connections of programs to listed hosts and names looked up in vain, by what became of them",
            self.connections.clone(),
        );
        ours.register_with_unit(
            "egress",
            "Bytes that programs sent to listed hosts and received from them",
            Unit::Bytes,
            self.bytes.clone(),
        );
        let denied = DeniedReason::VARIANTS.iter().map(DeniedReason::into_str);
        for verdict in denied.chain([ALLOWED]) {
            self.connections
                .get_or_create_owned(&VerdictLabels { verdict });
        }
        for direction in DIRECTIONS {
            self.bytes
                .get_or_create_owned(&DirectionLabels { direction });
        }
    }

    /// Adds what one run did.
    pub(super) fn count(&self, report: &NetworkReport) {
        for host in &report.hosts {
            let verdict = host.reason.map_or(ALLOWED, |reason| reason.into_str());
            let labels = VerdictLabels { verdict };
            let connections = self.connections.get_or_create_owned(&labels);
            connections.inc_by(host.connections + host.lookups);
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
