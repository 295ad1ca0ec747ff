//! The network by name: a program with a list of two hosts reaches the one that it may, and neither the other, which has
//! an address that is not public, nor anything by another name or by an address. All of them are this host's own.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::IpNet;

use super::Verdict;
use super::harness::{Attempt, Ended, Harness};
use crate::allow_list::{AllowList, HostName};
use crate::checks::network;
use crate::config::NetworkConfig;
use crate::egress::HostAccess;
use crate::executor::spec::NetworkAccess;

const PROGRAM: &str = include_str!("programs/egress.py");
const SECONDS: u64 = 30;
/// Where the listed hosts are. Names below `.invalid` are nobody else's (RFC 6761, 6.4).
const OPEN: (&str, Ipv4Addr) = ("open.selftest.invalid", Ipv4Addr::LOCALHOST);
const CLOSED: (&str, Ipv4Addr) = ("closed.selftest.invalid", Ipv4Addr::new(127, 0, 0, 2));

/// Says where the hosts of the test are.
pub(super) fn configure(config: &mut NetworkConfig) {
    for (name, address) in [OPEN, CLOSED] {
        let place = (IpAddr::V4(address), None);
        config
            .hosts
            .extend(name.parse::<HostName>().ok().map(|name| (name, place)));
    }
    config.private.push(IpNet::from(IpAddr::V4(OPEN.1)));
}

pub(super) async fn holds(harness: &Harness<'_>) -> Verdict {
    if !harness.test.lists_hosts {
        return Verdict::Pass("no hosts are listed (NETWORK_ALLOW)".to_owned());
    }
    let cannot =
        |error: &dyn std::fmt::Display| Verdict::Fail(format!("it could not be tried: {error}"));
    let host = match network::Listener::open().await {
        Ok(host) => host,
        Err(error) => return cannot(&error),
    };
    let entries = [OPEN, CLOSED].map(|(name, _)| format!("{name}:{}", host.port).parse());
    let list = AllowList::new(entries.into_iter().flatten());
    let list = match list {
        Ok(list) => Arc::new(list),
        Err(error) => return cannot(&error),
    };
    let addresses: Vec<_> = network::host_targets().into_iter().collect();
    let conversation = harness.conversation();
    let attempt = Attempt {
        program: PROGRAM,
        environment: &[
            ("OPEN", OPEN.0.to_owned()),
            ("CLOSED", CLOSED.0.to_owned()),
            ("PORT", host.port.to_string()),
            ("ADDRESSES", addresses.join(" ")),
        ],
        seconds: SECONDS,
        network: Some(NetworkAccess::Listed(HostAccess::to(list))),
        ..Attempt::default()
    };
    let ended = tokio::select! {
        ended = harness.run(&conversation, attempt) => ended,
        () = host.answer() => return cannot(&"the listener ended"),
    };
    harness.forget(&conversation).await;
    match ended {
        Ok(ended) => judge(&ended, &host.word),
        Err(verdict) => verdict,
    }
}

fn judge(ended: &Ended, word: &str) -> Verdict {
    let stdout = &ended.outcome.stdout;
    let (open, others): (Vec<_>, Vec<_>) = stdout
        .lines()
        .filter(|line| line.contains(' '))
        .partition(|line| line.starts_with("open "));
    if let Some(other) = others.iter().find(|line| line.ends_with(word)) {
        let what = other.split(' ').next().unwrap_or_default();
        return Verdict::Fail(format!(
            "a program reaches {what}, which its list does not let it"
        ));
    }
    if ended.last_line() != "done" {
        return Verdict::Fail(format!("it did not get to its end: {}", ended.ending()));
    }
    if !open.iter().any(|line| line.ends_with(word)) {
        return Verdict::Fail(format!("a listed host is not reached: {}", open.concat()));
    }
    Verdict::when(
        others.len() > 3,
        format!(
            "a listed host is reached, and {} others are not",
            others.len()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::harness::ended;
    use super::*;
    use crate::run::outcome::RunStatus;

    #[test]
    fn a_word_that_came_another_way_tells() {
        let judge = |stdout: &str| judge(&ended(RunStatus::Ok, stdout), "word").into_str();
        let shut = "closed shut\nunlisted shut\nloopback shut\n192.0.2.1 shut\n";
        assert_eq!(judge(&format!("open word\n{shut}done\n")), "pass");
        assert_eq!(
            judge(&format!("open word\n{shut}192.0.2.2 word\ndone\n")),
            "FAIL"
        );
        assert_eq!(judge(&format!("open shut\n{shut}done\n")), "FAIL");
        assert_eq!(judge(&format!("open word\n{shut}")), "FAIL");
        assert_eq!(judge("open word\ndone\n"), "FAIL", "nothing was tried");
    }
}
