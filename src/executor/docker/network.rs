//! Whether a network is what the engine was asked for. The firewall's rules name its interface, so one that an engine
//! made in another way is of no use.

use bollard::models::{Ipam, NetworkCreateRequest, NetworkInspect};

/// Whether the network that was made is the one that was wanted; if not, how it differs.
pub(super) fn check(wanted: &NetworkCreateRequest, made: &NetworkInspect) -> Result<(), String> {
    let option = |name: &String| made.options.as_ref()?.get(name).cloned();
    let mut settings = vec![
        (
            "driver".to_owned(),
            made.driver.clone(),
            wanted.driver.clone(),
        ),
        (
            "IPv6".to_owned(),
            Some(made.enable_ipv6.unwrap_or_default().to_string()),
            wanted.enable_ipv6.map(|is_on| is_on.to_string()),
        ),
        (
            "subnet".to_owned(),
            subnets(made.ipam.as_ref()),
            subnets(wanted.ipam.as_ref()),
        ),
    ];
    let options = wanted.options.iter().flatten();
    settings.extend(options.map(|(name, value)| (name.clone(), option(name), Some(value.clone()))));
    settings.retain(|(_, is, wanted)| is != wanted);
    settings.sort();
    if settings.is_empty() {
        return Ok(());
    }
    let differences = settings.into_iter().map(|(name, is, wanted)| {
        let [is, wanted] = [is, wanted].map(|value| value.unwrap_or_else(|| "not set".to_owned()));
        format!("{name} is {is} and not {wanted}")
    });
    let differences = differences.collect::<Vec<_>>().join(", ");
    Err(format!(
        "the engine made {} in a way that the firewall rules do not fit: {differences}",
        wanted.name
    ))
}

/// All subnets of a network, of which there is to be one.
fn subnets(ipam: Option<&Ipam>) -> Option<String> {
    let configs = ipam?.config.iter().flatten();
    let subnets: Vec<_> = configs.filter_map(|config| config.subnet.clone()).collect();
    Some(subnets.join(" "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::request::create_network_body;
    use super::*;
    use crate::executor::spec::LaneSpec;

    #[test]
    fn what_an_engine_leaves_out_is_told() {
        let lane = LaneSpec {
            number: 0,
            subnet: "198.51.100.0/30".parse().unwrap(),
            labels: BTreeMap::default(),
        };
        let wanted = create_network_body(&lane);
        let mut made = NetworkInspect {
            driver: wanted.driver.clone(),
            enable_ipv6: wanted.enable_ipv6,
            ipam: wanted.ipam.clone(),
            options: wanted.options.clone(),
            ..Default::default()
        };
        assert_eq!(check(&wanted, &made), Ok(()));
        made.enable_ipv6 = Some(true);
        made.ipam = None;
        made.options = None;
        insta::assert_snapshot!(check(&wanted, &made).unwrap_err(), @"the engine made mcpsbx0 in a way that the firewall rules do not fit: IPv6 is true and not false, com.docker.network.bridge.enable_icc is not set and not false, com.docker.network.bridge.name is not set and not mcpsbx0, subnet is not set and not 198.51.100.0/30");
    }
}
