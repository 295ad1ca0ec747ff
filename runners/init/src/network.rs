//! The network of the sandbox: PID 1 leaves the engine's, if it is told to, for one with nothing in it, and says which
//! one programs have.

use std::ffi::OsStr;
use std::{fs, io};

use rustix::process::{DumpableBehavior, getgid, getuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
};
use sandbox_init::Network;

use crate::sys;

/// The one interface that a network always has.
const LOOPBACK: &str = "lo";

/// Why PID 1 has not left the engine's network.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    #[error("SANDBOX_NO_NETWORK is require or try: not {0:?}")]
    Malformed(String),
    #[error(
        "failed to leave the engine's network, for which the kernel and the engine's filter must let it unshare: {0}"
    )]
    Refused(io::Error),
    #[error("failed to {0} after leaving the engine's network: {1}")]
    Unfinished(&'static str, io::Error),
}

/// Leaves the engine's network if `variable` says so: `require`, or `try`, which stays where that is refused. Returns
/// whether it has, and so has a user namespace of its own.
///
/// The namespaces of user and network are made in one step, without a privilege. In the first PID 1 has all
/// capabilities for a moment: enough to have a loopback, and to give them up for good.
pub(crate) fn leave_if_told(variable: &OsStr) -> Result<bool, NetworkError> {
    let is_required = match variable.to_str() {
        Some("") => return Ok(false),
        Some("require") => true,
        Some("try") => false,
        _ => {
            return Err(NetworkError::Malformed(
                variable.to_string_lossy().into_owned(),
            ));
        }
    };
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    match sys::unshare_network() {
        Ok(()) => {}
        Err(_) if !is_required => return Ok(false),
        Err(error) => return Err(NetworkError::Refused(error)),
    }
    // A program that cannot be read is closed to itself too.
    let unfinished = |what| move |error| NetworkError::Unfinished(what, error);
    set_dumpable_behavior(DumpableBehavior::Dumpable)
        .map_err(io::Error::from)
        .map_err(unfinished("be open to itself"))?;
    // The same user inside as outside, and no other.
    fs::write("/proc/self/setgroups", "deny").map_err(unfinished("keep its groups"))?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))
        .map_err(unfinished("keep its user"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
        .map_err(unfinished("keep its group"))?;
    sys::raise(LOOPBACK).map_err(unfinished("have a loopback"))?;
    give_up_capabilities().map_err(unfinished("give up all capabilities"))?;
    Ok(true)
}

fn give_up_capabilities() -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The kernel has no more.
            Err(rustix::io::Errno::INVAL) if number > 0 => break,
            Err(error) => return Err(error.into()),
        }
    }
    let none = CapabilitySet::empty();
    let none = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    Ok(set_capabilities(None, none)?)
}

/// Which network programs have, as far as can be seen: none if nothing but the loopback is up and no route leads
/// elsewhere. What cannot be looked at counts as the engine's.
pub(crate) fn look() -> Network {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/net/{name}"));
    let is_up = |name: &str| sys::is_up(name).unwrap_or(true);
    let routes6 = match read("ipv6_route") {
        // A kernel without.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    };
    match (read("dev"), read("route"), routes6) {
        (Ok(interfaces), Ok(routes), Ok(routes6))
            if is_alone(&interfaces, &routes, &routes6, is_up) =>
        {
            Network::None
        }
        _ => Network::Engine,
    }
}

/// The kernel makes some tunnel interfaces, down, in every new namespace.
fn is_alone(interfaces: &str, routes: &str, routes6: &str, is_up: impl Fn(&str) -> bool) -> bool {
    let names = interfaces.lines().filter_map(|line| line.split_once(':'));
    let mut others = names
        .map(|(name, _)| name.trim())
        .filter(|name| *name != LOOPBACK);
    let leads_to_loopback = |line: &str| line.split_whitespace().last() == Some(LOOPBACK);
    // The first line has titles.
    routes.lines().count() <= 1 && routes6.lines().all(leads_to_loopback) && !others.any(is_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLES: &str = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
";
    const LO: &str = "    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n";
    const ETH0: &str = "  eth0:    1166      15    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n";
    const ROUTES: &str =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
    const ROUTE: &str = "eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
    const NOWHERE6: &str = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";
    const LOCAL6: &str = "fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n";

    fn alone(interfaces: &[&str], routes: &[&str], routes6: &[&str], up: &str) -> bool {
        let [interfaces, routes, routes6] = [interfaces, routes, routes6].map(<[&str]>::concat);
        is_alone(&interfaces, &routes, &routes6, |name| {
            name == up || name == LOOPBACK
        })
    }

    #[test]
    fn a_loopback_is_no_network() {
        assert!(alone(&[TITLES, LO], &[ROUTES], &[NOWHERE6], ""));
        assert!(alone(&[TITLES, LO], &[], &[], ""));
        // A tunnel that nobody uses.
        assert!(alone(&[TITLES, LO, ETH0], &[ROUTES], &[NOWHERE6], ""));
    }

    #[test]
    fn whatever_is_up_or_leads_away_is_one() {
        assert!(!alone(&[TITLES, LO, ETH0], &[ROUTES], &[], "eth0"));
        assert!(!alone(&[TITLES, LO], &[ROUTES, ROUTE], &[], ""));
        assert!(!alone(&[TITLES, LO], &[ROUTES], &[NOWHERE6, LOCAL6], ""));
    }

    #[test]
    fn another_word_is_a_mistake() {
        for word in ["1", "Require", "yes", " try"] {
            let error = leave_if_told(OsStr::new(word)).unwrap_err().to_string();
            assert!(error.ends_with(&format!("not {word:?}")), "{error}");
        }
        assert!(matches!(leave_if_told(OsStr::new("")), Ok(false)));
    }
}
