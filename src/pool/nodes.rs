//! The nodes on which sandboxes without a network were found to reach something, and which are avoided for a while. Pure.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::sandbox::Uncut;

/// How long a node is avoided. Then it is tried again: whoever runs it may have mended it.
const AVOIDED_FOR: Duration = Duration::from_mins(3);
/// How many are avoided at a time: the names of all of them are in each request for a container.
const MAX_AVOIDED: usize = 64;

/// What is known of how nodes keep sandboxes from the network.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    avoided: BTreeMap<String, Avoided>,
    /// Why the last sandbox was not kept from it; `None` if it was.
    last: Option<Uncut>,
    /// Whether the engine's rules are what some sandbox is kept from it by.
    rely_on_rules: bool,
}

#[derive(Debug)]
struct Avoided {
    until: Instant,
    reached: String,
}

impl Nodes {
    /// A sandbox is kept from the network, by the engine's rules or without them.
    pub(super) fn held(&mut self, by_rules: bool) {
        self.last = None;
        self.rely_on_rules |= by_rules;
    }

    /// A sandbox is not. True if that is on a node which was not avoided, and is from now on.
    pub(super) fn failed(&mut self, uncut: &Uncut, now: Instant) -> bool {
        self.last = Some(uncut.clone());
        match uncut {
            Uncut::Open {
                addresses,
                node: Some(node),
            } => self.avoid(node, addresses, now),
            _ => false,
        }
    }

    fn avoid(&mut self, node: &str, addresses: &[SocketAddr], now: Instant) -> bool {
        self.forget(now);
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let avoided = Avoided {
            until: now + AVOIDED_FOR,
            reached: addresses.join(", "),
        };
        let is_new = self.avoided.insert(node.to_owned(), avoided).is_none();
        if self.avoided.len() > MAX_AVOIDED {
            let soonest = self.avoided.iter().min_by_key(|(_, avoided)| avoided.until);
            let soonest = soonest.map(|(node, _)| node.clone());
            soonest.map(|node| self.avoided.remove(&node));
        }
        is_new
    }

    fn forget(&mut self, now: Instant) {
        self.avoided.retain(|_, avoided| avoided.until > now);
    }

    /// Those that are avoided now, and what was reached there.
    pub(super) fn avoided(&mut self, now: Instant) -> BTreeMap<String, String> {
        self.forget(now);
        let avoided = self.avoided.iter();
        avoided
            .map(|(node, avoided)| (node.clone(), avoided.reached.clone()))
            .collect()
    }

    /// Why the last sandbox was not kept from the network, if it was not.
    pub(super) fn last(&self) -> Option<&Uncut> {
        self.last.as_ref()
    }

    /// Whether the engine's rules are what some sandbox is kept from the network by.
    pub(super) fn rely_on_rules(&self) -> bool {
        self.rely_on_rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(node: Option<&str>) -> Uncut {
        Uncut::Open {
            addresses: vec!["192.0.2.1:443".parse().unwrap()],
            node: node.map(ToOwned::to_owned),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_avoided_until_it_is_tried_again() {
        let mut nodes = Nodes::default();
        let begun = Instant::now();
        assert!(nodes.failed(&open(Some("n1")), begun));
        assert!(
            !nodes.failed(&open(Some("n1")), begun),
            "it is avoided already"
        );
        assert!(!nodes.failed(&open(None), begun), "nobody knows which");
        assert!(!nodes.failed(&Uncut::Untried, begun));
        assert_eq!(nodes.last(), Some(&Uncut::Untried));
        let all = [("n1".to_owned(), "192.0.2.1:443".to_owned())].into();
        assert_eq!(nodes.avoided(begun + AVOIDED_FOR / 2), all);
        // Another one holds, which says nothing of this one.
        nodes.held(true);
        assert_eq!((nodes.last(), nodes.rely_on_rules()), (None, true));
        assert_eq!(nodes.avoided(begun + AVOIDED_FOR / 2), all);
        assert_eq!(nodes.avoided(begun + AVOIDED_FOR), BTreeMap::new());
        assert!(nodes.failed(&open(Some("n1")), begun + AVOIDED_FOR));
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_are_avoided() {
        let (mut nodes, begun) = (Nodes::default(), Instant::now());
        for number in 0..2 * MAX_AVOIDED {
            let later = begun + Duration::from_millis(number as u64);
            assert!(nodes.failed(&open(Some(&format!("n{number}"))), later));
        }
        let avoided = nodes.avoided(begun + Duration::from_secs(1));
        assert_eq!(avoided.len(), MAX_AVOIDED);
        assert!(!avoided.contains_key("n0") && avoided.contains_key("n127"));
    }
}
