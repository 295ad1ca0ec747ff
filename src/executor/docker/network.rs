//! The network for programs that may use one. The firewall's rules name its interface, so a network that somebody else
//! made under its name is of no use.

use std::collections::HashMap;

use bollard::models::{NetworkCreateRequest, NetworkInspect};

use crate::executor::spec::NETWORK_NAME;

/// What the engine is asked for.
pub(super) fn request() -> NetworkCreateRequest {
    let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    NetworkCreateRequest {
        name: NETWORK_NAME.to_owned(),
        driver: Some("bridge".to_owned()),
        enable_ipv6: Some(false),
        options: Some(HashMap::from([
            option("com.docker.network.bridge.name", NETWORK_NAME),
            option("com.docker.network.bridge.enable_icc", "false"),
        ])),
        labels: Some(HashMap::from([(
            "sandbox.network".to_owned(),
            "true".to_owned(),
        )])),
        ..Default::default()
    }
}

/// Whether the network of that name is as it should have been made; if not, what the operator reads.
pub(super) fn check(network: &NetworkInspect) -> Result<(), String> {
    let differences = differences(network);
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!(
        "there is another network named {NETWORK_NAME}, which the firewall rules do not fit: {}. The operator can \
         remove it with `docker network rm {NETWORK_NAME}`: then it is made as it should be",
        differences.join(", ")
    ))
}

/// How a network differs from how it should have been made.
fn differences(network: &NetworkInspect) -> Vec<String> {
    let wanted = request();
    let option = |name: &String| network.options.as_ref()?.get(name).cloned();
    let mut settings = vec![
        (
            "driver".to_owned(),
            network.driver.clone(),
            wanted.driver.clone(),
        ),
        (
            "IPv6".to_owned(),
            Some(network.enable_ipv6.unwrap_or_default().to_string()),
            wanted.enable_ipv6.map(|is_on| is_on.to_string()),
        ),
    ];
    let options = wanted.options.iter().flatten();
    settings.extend(options.map(|(name, value)| (name.clone(), option(name), Some(value.clone()))));
    settings.retain(|(_, is, wanted)| is != wanted);
    settings.sort();
    let differences = settings.into_iter().map(|(name, is, wanted)| {
        let [is, wanted] = [is, wanted].map(|value| value.unwrap_or_else(|| "not set".to_owned()));
        format!("{name} is {is} and not {wanted}")
    });
    differences.collect()
}
