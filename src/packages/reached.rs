//! What an install reached of the network, and why not more.

use std::sync::Arc;

use crate::egress::{DeniedReason, HostTraffic, INVALID, Traffic};

/// Most hosts of which it is said why they were not reached.
const MAX_REASONS: usize = 3;

/// What a step reached.
#[derive(Debug)]
pub(super) enum Reached {
    /// Nobody knows.
    Unseen,
    /// Listed hosts, as these books say.
    Hosts(Arc<Traffic>),
    /// Nothing, for this reason.
    Nothing(String),
}

impl Reached {
    /// Why something was not reached, if that is known.
    pub(super) fn why_not(&self) -> Option<String> {
        match self {
            Self::Unseen => None,
            Self::Nothing(reason) => Some(reason.clone()),
            Self::Hosts(traffic) => {
                let report = traffic.report();
                let mut why: Vec<_> = report.hosts.iter().filter_map(why_not).collect();
                why.dedup();
                why.truncate(MAX_REASONS);
                (!why.is_empty()).then(|| why.join("; "))
            }
        }
    }
}

/// Why a host was not reached; nothing for one that was, or whose name is none.
fn why_not(host: &HostTraffic) -> Option<String> {
    let (reason, host) = (host.reason?, &host.host);
    if host == INVALID {
        return None;
    }
    Some(match reason {
        DeniedReason::NotListed => {
            format!(
                "{host} is not among the hosts of packages, to which the operator can add it (PACKAGE_HOSTS)"
            )
        }
        DeniedReason::PrivateAddress => {
            format!(
                "{host} has a private address, which the operator can allow to hosts that settings name (NETWORK_PRIVATE, PACKAGE_HOSTS)"
            )
        }
        DeniedReason::Unresolvable => format!("the name {host} leads nowhere"),
        DeniedReason::Unreachable => format!("{host} does not answer"),
        DeniedReason::Limit => format!("{host} has sent more than an install may fetch"),
        reason => {
            let reason = reason.into_str().replace('_', " ");
            format!("{host} was refused ({reason})")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_is_named_once_and_not_too_many() {
        let traffic = Traffic::new(1);
        let reached = Reached::Hosts(Arc::clone(&traffic));
        assert_eq!(reached.why_not(), None);
        traffic.unknown(None);
        assert_eq!(reached.why_not(), None);
        for (host, port, reason) in [
            ("index.test", 443, DeniedReason::Unreachable),
            ("index.test", 80, DeniedReason::Unreachable),
            ("files.test", 443, DeniedReason::PrivateAddress),
            ("a.test", 443, DeniedReason::SniMismatch),
            ("b.test", 443, DeniedReason::Limit),
        ] {
            traffic.deny(host, port, reason);
        }
        insta::assert_snapshot!(reached.why_not().unwrap(), @"a.test was refused (sni mismatch); b.test has sent more than an install may fetch; files.test has a private address, which the operator can allow to hosts that settings name (NETWORK_PRIVATE, PACKAGE_HOSTS)");
        assert_eq!(Reached::Unseen.why_not(), None);
        let closed = Reached::Nothing("closed".to_owned());
        assert_eq!(closed.why_not().unwrap(), "closed");
    }
}
