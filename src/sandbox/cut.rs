//! Whether programs of a sandbox are kept from the network, by what its PID 1 says. Pure.

use std::net::SocketAddr;

use sandbox_init::{Network, Ready};
use thiserror::Error;

/// How programs are kept from the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// There is none.
    Absent,
    /// It is that of the engine, in which nothing answered that must not: the engine's rules close it, if they say so.
    Shut,
}

/// Why programs are not kept from the network.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Uncut {
    /// PID 1 did not look.
    #[error("it does not say which one it has")]
    NotSaid,
    /// There is one, and it was not tried whether it is closed.
    #[error("it has the one of the engine")]
    Untried,
    /// There is one, and it is open.
    #[error(
        "it has the one of the engine, and {} from there{}: what is to close it does not, or not from the first moment",
        answered(.addresses), on(.node.as_deref())
    )]
    Open {
        /// What answered.
        addresses: Vec<SocketAddr>,
        /// The node that it was on, where there are any.
        node: Option<String>,
    },
    /// There is one, and nothing is to close it, for this reason.
    #[error("it has the one of the engine, which nothing is to close: {0}")]
    NoRules(String),
    /// It is open on all nodes that could have it.
    #[error(
        "no node is left for it: {avoided}, so what is to close the network there does not, or not from the first moment \
         ({reason})"
    )]
    NoNode {
        /// Those that are avoided, and what answered there.
        avoided: String,
        /// The engine's own words.
        reason: String,
    },
}

impl Uncut {
    /// The node that it is open on.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Open { node, .. } => node.as_deref(),
            _ => None,
        }
    }
}

fn answered(addresses: &[SocketAddr]) -> String {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    format!("{} answered", addresses.join(", "))
}

fn on(node: Option<&str>) -> String {
    node.map_or_else(String::new, |node| format!(", on the node {node}"))
}

/// How programs are kept from the network. If `is_known` has to be, PID 1 must have looked.
///
/// # Errors
/// They are not, as far as is known.
pub(super) fn cut(ready: &Ready, is_known: bool) -> Result<Cut, Uncut> {
    match (ready.network, &ready.reached) {
        (Some(Network::None), _) => Ok(Cut::Absent),
        (None, _) if !is_known => Ok(Cut::Absent),
        (None, _) => Err(Uncut::NotSaid),
        (Some(Network::Engine), None) => Err(Uncut::Untried),
        (Some(Network::Engine), Some(reached)) if reached.is_empty() => Ok(Cut::Shut),
        (Some(Network::Engine), Some(reached)) => Err(Uncut::Open {
            addresses: reached.clone(),
            node: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_proved_is_not_cut() {
        let address: SocketAddr = "192.0.2.1:443".parse().unwrap();
        let said = |network, reached: Option<&[SocketAddr]>, is_known| {
            let reached = reached.map(<[_]>::to_vec);
            cut(&Ready { network, reached }, is_known)
        };
        for is_known in [true, false] {
            assert_eq!(said(Some(Network::None), None, is_known), Ok(Cut::Absent));
            let engine = |reached| said(Some(Network::Engine), reached, is_known);
            assert_eq!(engine(Some(&[])), Ok(Cut::Shut));
            assert_eq!(engine(None), Err(Uncut::Untried));
            let (addresses, node) = (vec![address], None);
            let open = Err(Uncut::Open { addresses, node });
            assert_eq!(engine(Some(&[address])), open);
        }
        assert_eq!(said(None, Some(&[]), true), Err(Uncut::NotSaid));
        assert_eq!(said(None, None, false), Ok(Cut::Absent));
    }

    #[test]
    fn the_reason_names_what_answered_and_where() {
        let open = Uncut::Open {
            addresses: vec!["192.0.2.1:443".parse().unwrap()],
            node: Some("n1".to_owned()),
        };
        insta::assert_snapshot!(open, @"it has the one of the engine, and 192.0.2.1:443 answered from there, on the node n1: what is to close it does not, or not from the first moment");
    }
}
