//! Which addresses are public, so that a name may lead there. The rest is this machine's, its neighbours' or nobody's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// What is private, special or unassigned: the ranges of `scripts/firewall.sh`, which says why.
const NOT_PUBLIC_4: [&str; 15] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "168.63.129.16/32",
];

/// All of version 6 that is assigned to be reached from everywhere (RFC 4291, 2.4).
const PUBLIC_6: &str = "2000::/3";
/// What of that is not: for documentation and for benchmarks.
const NOT_PUBLIC_6: [&str; 3] = ["2001:db8::/32", "3fff::/20", "2001:2::/48"];
/// Teredo has an address of version 4 in its last bits, inverted (RFC 4380, 4).
const TEREDO: &str = "2001::/32";
/// 6to4 has one after its first 16 bits (RFC 3056, 2).
const SIX_TO_FOUR: &str = "2002::/16";
/// What translators map addresses of version 4 to has it in its last bits (RFC 6052, 2.1).
const TRANSLATED: &str = "64:ff9b::/96";

/// Whether an address can be somebody's on the internet, as can the one that it may have in it.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_4(address),
        IpAddr::V6(address) => is_public_6(address),
    }
}

fn is_public_4(address: Ipv4Addr) -> bool {
    let is_in = |range: &str| {
        range
            .parse::<Ipv4Net>()
            .is_ok_and(|it| it.contains(&address))
    };
    !NOT_PUBLIC_4.iter().copied().any(is_in)
}

fn is_public_6(address: Ipv6Addr) -> bool {
    let is_in = |range: &str| {
        range
            .parse::<Ipv6Net>()
            .is_ok_and(|it| it.contains(&address))
    };
    let bits = address.to_bits();
    let last = Ipv4Addr::from_bits(u32::try_from(bits & u128::from(u32::MAX)).unwrap_or(0));
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_4(mapped);
    }
    if is_in(TRANSLATED) {
        return is_public_4(last);
    }
    if is_in(TEREDO) {
        return is_public_4(Ipv4Addr::from_bits(!last.to_bits()));
    }
    if is_in(SIX_TO_FOUR) {
        let embedded = u32::try_from((bits >> 80) & u128::from(u32::MAX)).unwrap_or(0);
        return is_public_4(Ipv4Addr::from_bits(embedded));
    }
    is_in(PUBLIC_6) && !NOT_PUBLIC_6.iter().any(|range| is_in(range))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn public(address: &str) -> bool {
        is_public(address.parse().unwrap())
    }

    /// Each range of the firewall's is closed here, too, from its first address to its last.
    #[test]
    fn the_ranges_are_those_of_the_firewall() {
        let script = include_str!("../../scripts/firewall.sh");
        let (_, list) = script.split_once("0.0.0.0/8").unwrap();
        let (list, _) = list.split_once(')').unwrap();
        let ranges = list
            .split_whitespace()
            .filter_map(|word| word.parse::<Ipv4Net>().ok());
        let mut closed: Vec<_> = ranges.chain(["0.0.0.0/8".parse().unwrap()]).collect();
        closed.sort();
        let mut ours: Vec<Ipv4Net> = NOT_PUBLIC_4.map(|range| range.parse().unwrap()).into();
        ours.sort();
        assert_eq!(ours, closed);
        for range in ours {
            assert!(
                !is_public_4(range.network()) && !is_public_4(range.broadcast()),
                "{range}"
            );
        }
    }

    #[test]
    fn what_is_not_public_stays_so_in_every_disguise() {
        for address in [
            "127.0.0.1",
            "169.254.169.254",
            "10.0.0.1",
            "168.63.129.16",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "fc00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:a00:1::1",
            "2002:7f00:1::1",
            // 10.0.0.1, inverted.
            "2001:0:4136:e378:8000:63bf:f5ff:fffe",
        ] {
            assert!(!public(address), "{address}");
        }
        for address in [
            "1.1.1.1",
            "198.51.100.1",
            "172.32.0.1",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
        ] {
            assert!(public(address), "{address}");
        }
    }

    proptest! {
        #[test]
        fn an_address_of_version_4_is_the_same_when_it_is_mapped(bits in any::<u32>()) {
            let address = Ipv4Addr::from_bits(bits);
            prop_assert_eq!(is_public_4(address), is_public_6(address.to_ipv6_mapped()));
            let documentation = "198.51.100.0/24".parse::<Ipv4Net>().unwrap();
            // What the standard library calls private is never public.
            let is_special = address.is_private() || address.is_loopback() || address.is_link_local()
                || address.is_multicast() || address.is_unspecified() || address.is_broadcast()
                || (address.is_documentation() && !documentation.contains(&address));
            prop_assert!(!(is_special && is_public_4(address)));
        }
    }
}
