//! The engine's request for a lane: a bridge with room for one container. Pure, like that for the container.

use std::collections::HashMap;

use bollard::models::{Ipam, IpamConfig, NetworkCreateRequest};

use crate::executor::spec::LaneSpec;

/// The engine's request for a lane.
pub(in crate::executor::docker) fn create_network_body(lane: &LaneSpec) -> NetworkCreateRequest {
    let option = |name: &str, value: String| (name.to_owned(), value);
    NetworkCreateRequest {
        name: lane.name(),
        driver: Some("bridge".to_owned()),
        enable_ipv6: Some(false),
        ipam: Some(Ipam {
            config: Some(vec![IpamConfig {
                subnet: Some(lane.subnet.to_string()),
                ..Default::default()
            }]),
            ..Default::default()
        }),
        options: Some(HashMap::from([
            option("com.docker.network.bridge.name", lane.name()),
            option("com.docker.network.bridge.enable_icc", "false".to_owned()),
        ])),
        labels: Some(lane.labels.clone().into_iter().collect()),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_whole_request_is_pinned() {
        let lane = LaneSpec {
            number: 3,
            subnet: "198.51.100.12/30".parse().unwrap(),
            labels: BTreeMap::from([("sandbox.server".to_owned(), "s1".to_owned())]),
        };
        insta::with_settings!({ sort_maps => true }, {
            insta::assert_json_snapshot!(create_network_body(&lane), @r#"
            {
              "Name": "mcpsbx3",
              "Driver": "bridge",
              "IPAM": {
                "Config": [
                  {
                    "Subnet": "198.51.100.12/30"
                  }
                ]
              },
              "EnableIPv6": false,
              "Options": {
                "com.docker.network.bridge.enable_icc": "false",
                "com.docker.network.bridge.name": "mcpsbx3"
              },
              "Labels": {
                "sandbox.server": "s1"
              }
            }
            "#);
        });
    }
}
