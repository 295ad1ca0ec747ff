//! Several servers on one root, of which one leads.

use std::net::IpAddr;
use std::time::Duration;

use super::reader::Reader;

/// The form of `LEADER_LEASE`, in words.
const LEASE: &str =
    "the name of a Lease in the namespace of the sandboxes, such as `mcp-code-sandbox`";
/// The form of `POD_IP`, in words.
const ADDRESS: &str = "an address at which the other servers reach this one, such as `10.244.1.7`";
/// What can be told apart from an API server that is slow for a moment, and still is no long outage.
const DURATIONS: [Duration; 2] = [Duration::from_secs(2), Duration::from_mins(10)];

/// Several servers on one root, of which one leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaConfig {
    /// The Lease that says which one; `None` means that there is one server only (`LEADER_LEASE`).
    pub lease: Option<String>,
    /// How long a leader that is not heard of leads still (`LEASE_DURATION`).
    pub duration: Duration,
    /// Where the others reach this server; `None` means where it listens (`POD_IP`).
    pub pod_ip: Option<IpAddr>,
}

impl Default for ReplicaConfig {
    fn default() -> Self {
        Self {
            lease: None,
            duration: Duration::from_secs(10),
            pod_ip: None,
        }
    }
}

impl ReplicaConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let lease = reader
            .text("LEADER_LEASE")
            .map(|_| reader.parse("LEADER_LEASE", LEASE, String::new(), object_name));
        let duration = reader.duration("LEASE_DURATION");
        if !(DURATIONS[0]..=DURATIONS[1]).contains(&duration) {
            reader.reject("LEASE_DURATION", "a duration from `2s` to `10m`");
        }
        let pod_ip = reader.text("POD_IP").map(|_| {
            let none = IpAddr::from([0, 0, 0, 0]);
            reader.parse("POD_IP", ADDRESS, none, |value| value.parse().ok())
        });
        Self {
            lease,
            duration,
            pod_ip,
        }
    }

    /// What `check-config` prints, in the order of the table.
    pub(super) fn lines(&self) -> [(&'static str, String); 3] {
        let pod_ip = self.pod_ip.map(|ip| ip.to_string());
        let duration = humantime::format_duration(self.duration);
        [
            ("POD_IP", pod_ip.unwrap_or_default()),
            ("LEADER_LEASE", self.lease.clone().unwrap_or_default()),
            ("LEASE_DURATION", duration.to_string()),
        ]
    }
}

/// A name of something in a namespace.
pub(super) fn object_name(value: &str) -> Option<String> {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let is_name = (1..=253).contains(&value.len()) && value.bytes().all(is_plain);
    is_name.then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn read(settings: &[(&str, &str)]) -> Result<Config, String> {
        let lookup = |name: &str| {
            let required = [
                ("MCP_API_TOKEN", "0123456789abcdef0123456789abcdef"),
                ("FILE_SECRET", "0123456789abcdef0123456789abcdef"),
                ("EXECUTOR", "kubernetes"),
                ("MAX_CONCURRENT_RUNS", "1"),
                ("KUBE_VOLUME_CLAIM", "sandboxes"),
            ];
            let mut all = settings.iter().chain(&required);
            let found = all.find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Config::from_lookup(&lookup).map_err(|errors| errors.to_string())
    }

    #[test]
    fn one_of_several_needs_an_address() {
        let everywhere = ("MCP_HTTP_ADDR", "0.0.0.0:8080");
        let lease = ("LEADER_LEASE", "servers");
        assert!(read(&[lease]).unwrap().is_replica());
        assert!(!read(&[everywhere]).unwrap().is_replica());
        assert!(read(&[lease, everywhere, ("POD_IP", "10.0.0.1")]).is_ok());
        insta::assert_snapshot!(read(&[lease, everywhere]).unwrap_err(), @"POD_IP is not set: it must be the address of this server's pod with LEADER_LEASE, unless MCP_HTTP_ADDR has one");
    }

    #[test]
    fn what_is_no_lease_is_refused() {
        let refused = read(&[
            ("POD_IP", "here"),
            ("LEADER_LEASE", "My Lease"),
            ("LEASE_DURATION", "1s"),
        ]);
        insta::assert_snapshot!(refused.unwrap_err(), @"
        LEADER_LEASE=My Lease is not valid: it must be the name of a Lease in the namespace of the sandboxes, such as `mcp-code-sandbox`
        LEASE_DURATION=1s is not valid: it must be a duration from `2s` to `10m`
        POD_IP=here is not valid: it must be an address at which the other servers reach this one, such as `10.244.1.7`
        ");
    }
}
