//! What the network of a container has to be: its own, with room for one container.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// How the names of lanes begin, and of their interfaces on the host. The firewall rules name all that begin like this.
pub const LANE_PREFIX: &str = "mcpsbx";
/// Four addresses, of which two can be used: the host's and the container's. So an engine refuses a second container.
const LANE_BITS: u8 = 30;

/// A lane, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSpec {
    /// Its number, which no other lane on the engine has.
    pub number: u32,
    /// Its addresses.
    pub subnet: Ipv4Net,
    /// Labels by which to find it.
    pub labels: BTreeMap<String, String>,
}

impl LaneSpec {
    /// Its name, and that of its interface on the host.
    pub fn name(&self) -> String {
        format!("{LANE_PREFIX}{}", self.number)
    }
}

/// The number of a lane, from its name.
pub fn lane_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix(LANE_PREFIX)?.parse().ok()?;
    // Neither `mcpsbx+1` nor `mcpsbx01`.
    (format!("{LANE_PREFIX}{number}") == name).then_some(number)
}

/// The addresses of a lane; `None` if `range` has no room for a lane of this number.
pub fn lane_subnet(range: Ipv4Net, number: u32) -> Option<Ipv4Net> {
    let lanes = 1_u32.checked_shl(u32::from(LANE_BITS.checked_sub(range.prefix_len())?))?;
    let offset = (number < lanes).then_some(number << (32 - LANE_BITS))?;
    let first = Ipv4Addr::from_bits(range.network().to_bits() | offset);
    Ipv4Net::new(first, LANE_BITS).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_names_of_lanes_only() {
        for (name, number) in [
            ("mcpsbx0", Some(0)),
            ("mcpsbx12", Some(12)),
            ("mcpsbx", None),
            ("mcpsbx01", None),
            ("mcpsbx+1", None),
            ("mcpsbx-world", None),
            ("my-mcpsbx0", None),
        ] {
            assert_eq!(lane_number(name), number, "{name}");
        }
    }

    #[test]
    fn lanes_fill_the_range_and_share_no_address() {
        let range = "198.51.100.0/28".parse().unwrap();
        let lanes = (0..5).map(|number| lane_subnet(range, number));
        let lanes: Vec<_> = lanes.flatten().map(|lane| lane.to_string()).collect();
        assert_eq!(
            lanes,
            [
                "198.51.100.0/30",
                "198.51.100.4/30",
                "198.51.100.8/30",
                "198.51.100.12/30"
            ]
        );
    }
}
