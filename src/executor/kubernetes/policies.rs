//! What network policies have to say about sandboxes, and whether those that are there do. Pure.
//!
//! Policies only ever allow: a pod that one of them selects reaches what any of them allows, and nothing else. So what
//! counts is all that select a sandbox, whoever made them and for whatever.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::Ipv4Net;
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use thiserror::Error;

use super::pod::labels::{Labels, sandbox};

/// What no sandbox may reach: addresses of clusters, of their nodes, of clouds, and of nobody in particular.
const CLOSED: [&str; 7] = [
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "224.0.0.0/4",
];
/// Where resolvers are asked.
const DNS_PORT: i32 = 53;

/// What is wrong with the policies of a namespace.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PolicyError {
    /// Nothing closes sandboxes.
    #[error("no NetworkPolicy selects sandboxes {0} for {1}")]
    Unselected(&'static str, &'static str),
    /// One opens them.
    #[error("the NetworkPolicy {policy} lets sandboxes {which} {what}")]
    Opens {
        /// Its name.
        policy: String,
        /// Which ones.
        which: &'static str,
        /// What they can do.
        what: String,
    },
    /// Nothing lets those with a network use it.
    #[error("no NetworkPolicy lets sandboxes with a network reach anything")]
    Closed,
}

/// Whether policies keep sandboxes away from all but the internet, and those without a network from that, too. They may
/// ask the resolvers `dns`.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(policies: &[NetworkPolicy], dns: &[IpAddr]) -> Result<(), PolicyError> {
    check_closed(policies)?;
    check_open(policies, dns)
}

/// Whether policies keep sandboxes without a network away from everything.
///
/// # Errors
/// The first thing that is wrong.
pub fn check_closed(policies: &[NetworkPolicy]) -> Result<(), PolicyError> {
    let closed = "without a network";
    for rules in selecting(policies, &sandbox("none"), closed)? {
        if let Some(policy) = rules
            .spec
            .egress
            .iter()
            .flatten()
            .next()
            .map(|_| rules.policy)
        {
            return Err(opens(policy, closed, "reach something"));
        }
    }
    Ok(())
}

fn check_open(policies: &[NetworkPolicy], dns: &[IpAddr]) -> Result<(), PolicyError> {
    let open = "with a network";
    let mut reaches_something = false;
    for Selected { policy, spec } in selecting(policies, &sandbox("egress"), open)? {
        for rule in spec.egress.iter().flatten() {
            reaches_something = true;
            if let Some(what) = too_far(rule, dns) {
                return Err(opens(policy, open, &what));
            }
        }
    }
    if reaches_something {
        Ok(())
    } else {
        Err(PolicyError::Closed)
    }
}

fn opens(policy: &NetworkPolicy, which: &'static str, what: &str) -> PolicyError {
    PolicyError::Opens {
        policy: policy.name_any(),
        which,
        what: what.to_owned(),
    }
}

/// A policy that selects a pod.
struct Selected<'a> {
    policy: &'a NetworkPolicy,
    spec: &'a NetworkPolicySpec,
}

/// The policies that select a pod with these labels, which have to close it both ways, and let nobody reach it.
fn selecting<'a>(
    policies: &'a [NetworkPolicy],
    labels: &Labels,
    which: &'static str,
) -> Result<Vec<Selected<'a>>, PolicyError> {
    let all = policies.iter().filter_map(|policy| {
        let spec = policy.spec.as_ref()?;
        let selector = spec.pod_selector.as_ref();
        let selects = selector.is_none_or(|selector| selects(selector, labels));
        selects.then_some(Selected { policy, spec })
    });
    let all: Vec<_> = all.collect();
    for way in ["Ingress", "Egress"] {
        let closes = |selected: &Selected<'_>| has_type(selected.spec, way);
        if !all.iter().any(closes) {
            return Err(PolicyError::Unselected(which, way));
        }
    }
    match all
        .iter()
        .find(|selected| selected.spec.ingress.iter().flatten().next().is_some())
    {
        Some(selected) => Err(opens(selected.policy, which, "be reached")),
        None => Ok(all),
    }
}

/// Whether a policy is about this way. One that does not say is about what comes in, and about what goes out if it has
/// rules for that.
fn has_type(spec: &NetworkPolicySpec, way: &str) -> bool {
    match &spec.policy_types {
        Some(types) => types.iter().any(|type_| type_ == way),
        None => way == "Ingress" || spec.egress.iter().flatten().next().is_some(),
    }
}

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten();
    let mut equal = equal.map(|(name, value)| labels.get(name) == Some(value));
    let expressions = selector.match_expressions.iter().flatten();
    let mut expressions = expressions.map(|expression| {
        let value = labels.get(&expression.key);
        let is_listed =
            value.is_some_and(|value| expression.values.iter().flatten().any(|it| it == value));
        match expression.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    });
    equal.all(|holds| holds) && expressions.all(|holds| holds)
}

/// What a rule allows that no sandbox may.
fn too_far(rule: &NetworkPolicyEgressRule, dns: &[IpAddr]) -> Option<String> {
    let mut peers = rule.to.iter().flatten().peekable();
    if peers.peek().is_none() {
        return Some("reach everything".to_owned());
    }
    let ports = rule.ports.iter().flatten();
    let mut ports =
        ports.map(|port| port.end_port.is_none() && port.port == Some(IntOrString::Int(DNS_PORT)));
    let asks_only = rule.ports.iter().flatten().next().is_some() && ports.all(|is_dns| is_dns);
    peers.find_map(|peer| beyond(peer, if asks_only { dns } else { &[] }))
}

/// What a peer is that no sandbox may reach, but for these resolvers.
fn beyond(peer: &NetworkPolicyPeer, resolvers: &[IpAddr]) -> Option<String> {
    let NetworkPolicyPeer {
        ip_block: Some(IPBlock { cidr, except }),
        pod_selector: None,
        namespace_selector: None,
    } = peer
    else {
        return Some("reach pods".to_owned());
    };
    let Ok(block) = cidr.parse::<Ipv4Net>() else {
        return Some(format!("reach {cidr}"));
    };
    if block.prefix_len() == 32 && resolvers.contains(&block.addr().into()) {
        return None;
    }
    let except: Vec<Ipv4Net> = except
        .iter()
        .flatten()
        .filter_map(|it| it.parse().ok())
        .collect();
    let closed = CLOSED
        .iter()
        .filter_map(|closed| closed.parse::<Ipv4Net>().ok());
    // Of two networks that have something in common, one is in the other.
    let mut shared = closed.filter_map(|closed| {
        if block.contains(&closed) {
            Some(closed)
        } else {
            closed.contains(&block).then_some(block)
        }
    });
    let open = shared.find(|shared| !except.iter().any(|except| except.contains(shared)))?;
    Some(format!("reach {open}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::manifests::deployed;
    use super::*;

    fn found(policies: Vec<Value>) -> String {
        let policies: Vec<NetworkPolicy> = serde_json::from_value(Value::Array(policies)).unwrap();
        let dns = [IpAddr::from([10, 0, 0, 53])];
        match check(&policies, &dns) {
            Ok(()) => "in place".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    fn with(spec: &Value) -> String {
        let more = json!({ "metadata": { "name": "more" }, "spec": spec });
        found([deployed("NetworkPolicy"), vec![more]].concat())
    }

    #[test]
    fn those_that_are_deployed_are_right_and_each_is_needed() {
        assert_eq!(found(deployed("NetworkPolicy")), "in place");
        let [deny, egress, _] = deployed("NetworkPolicy").try_into().unwrap();
        assert_eq!(
            found(vec![egress]),
            "no NetworkPolicy selects sandboxes without a network for Ingress"
        );
        let alone: NetworkPolicy = serde_json::from_value(deny.clone()).unwrap();
        assert_eq!(check_closed(&[alone]), Ok(()));
        assert_eq!(
            found(vec![deny]),
            "no NetworkPolicy lets sandboxes with a network reach anything"
        );
        for (range, open) in CLOSED.iter().enumerate() {
            let mut policies = deployed("NetworkPolicy");
            let block = &mut policies[1]["spec"]["egress"][0]["to"][0]["ipBlock"];
            block["except"].as_array_mut().unwrap().remove(range);
            assert_eq!(
                found(policies),
                format!(
                    "the NetworkPolicy sandbox-egress lets sandboxes with a network reach {open}"
                )
            );
        }
    }

    #[test]
    fn what_any_other_one_allows_counts() {
        let egress =
            |to: Value| json!({ "podSelector": {}, "policyTypes": ["Egress"], "egress": [to] });
        let everything = with(&egress(json!({})));
        assert!(everything.ends_with("more lets sandboxes without a network reach something"));
        let selector = json!({ "matchExpressions": [
            { "key": "sandbox.network", "operator": "NotIn", "values": ["none"] }
        ] });
        let of = |rule: Value| {
            let mut spec = egress(rule);
            spec["podSelector"] = selector.clone();
            with(&spec)
        };
        let to = |cidr: &str| json!({ "to": [{ "ipBlock": { "cidr": cidr } }] });
        assert!(of(json!({})).ends_with("with a network reach everything"));
        assert!(of(json!({ "to": [{ "podSelector": {} }] })).ends_with("reach pods"));
        assert!(of(to("::/0")).ends_with("reach ::/0"));
        assert!(of(to("192.168.7.0/24")).ends_with("reach 192.168.7.0/24"));
        assert_eq!(of(to("198.51.100.0/24")), "in place");
        // A resolver may be in a closed range, and is asked for names only.
        let mut resolver = to("10.0.0.53/32");
        assert!(of(resolver.clone()).ends_with("reach 10.0.0.53/32"));
        resolver["ports"] = json!([{ "port": 53, "protocol": "UDP" }]);
        assert_eq!(of(resolver), "in place");
        let reached = with(&json!({ "podSelector": {}, "ingress": [{}] }));
        assert!(
            reached.ends_with("more lets sandboxes without a network be reached"),
            "{reached}"
        );
        // The server's own allowance.
        let server = json!({ "podSelector": { "matchLabels": { "app": "server" } }, "ingress": [{}], "egress": [{}] });
        assert_eq!(with(&server), "in place");
    }
}
