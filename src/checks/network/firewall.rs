//! The host's packet filter, read back by the same script that installs the rules. The server runs it itself. If the
//! server is in a container and cannot see the host's rules, a service beside it runs the script and reports to a file.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use ipnet::Ipv4Net;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::config::EngineConfig;

/// Installs, checks and removes the rules.
const SCRIPT: &str = include_str!("../../../scripts/firewall.sh");
const WAIT: Duration = Duration::from_secs(10);
/// The service reports every 20 seconds.
const REPORT_AGE: Duration = Duration::from_secs(70);
const IN_PLACE: &str = "in place";
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Reads the report, or else the rules themselves, which let programs ask the configured resolvers, or the host's if
/// there are none. Fails with the first thing that is missing, or with why it cannot be read.
pub(super) async fn rules_are_in_place(config: &EngineConfig) -> Result<(), String> {
    match &config.firewall_report {
        Some(path) => reported(path, SystemTime::now()).await,
        None => checked(&config.dns, config.subnets).await,
    }
}

/// The service's last report, if it is recent.
async fn reported(path: &Path, now: SystemTime) -> Result<(), String> {
    let read = async {
        let text = tokio::fs::read_to_string(path).await?;
        let modified = tokio::fs::metadata(path).await?.modified()?;
        Ok::<_, std::io::Error>((text, modified))
    };
    let (text, modified) = read
        .await
        .map_err(|error| format!("no report at {}: {error}", path.display()))?;
    match now.duration_since(modified) {
        Ok(age) if age > REPORT_AGE => {
            return Err(format!("the last report is {} s old", age.as_secs()));
        }
        // As after the clock was set back: its age is unknown.
        Err(ahead) if ahead.duration() > REPORT_AGE => {
            let ahead = ahead.duration().as_secs();
            return Err(format!("the last report is from {ahead} s ahead"));
        }
        _ => {}
    }
    match text.trim() {
        IN_PLACE => Ok(()),
        "" => Err("the report is empty".to_owned()),
        printed => Err(printed.lines().next().unwrap_or_default().to_owned()),
    }
}

async fn checked(dns: &[IpAddr], subnets: Ipv4Net) -> Result<(), String> {
    let dns: Vec<_> = dns.iter().map(ToString::to_string).collect();
    let check = async {
        let mut child = Command::new("bash")
            .args(["-s", "--", "check"])
            // This is how the script takes them; what is in `.env` is not in this process's environment.
            .env("RUN_DNS", dns.join(","))
            .env("RUN_SUBNETS", subnets.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(SCRIPT.as_bytes()).await?;
        }
        child.wait_with_output().await
    };
    match tokio::time::timeout(WAIT, check).await {
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => {
            let printed = [output.stdout, output.stderr].concat();
            let printed = String::from_utf8_lossy(&printed);
            Err(printed
                .lines()
                .find(|line| !line.trim().is_empty())
                .unwrap_or("the check failed")
                .trim()
                .to_owned())
        }
        Ok(Err(error)) => Err(format!("the check cannot be started: {error}")),
        Err(_) => Err("the check took too long".to_owned()),
    }
}

/// The host's resolvers that a container can reach, by the rule of the script: those that are not on its loopback, and
/// no IPv6 ones, since the programs' network has no IPv6.
pub(super) async fn host_resolvers() -> Vec<IpAddr> {
    let text = tokio::fs::read_to_string(RESOLV_CONF)
        .await
        .unwrap_or_default();
    resolvers(&text)
}

fn resolvers(resolv_conf: &str) -> Vec<IpAddr> {
    let lines = resolv_conf.lines().filter_map(|line| {
        let mut words = line
            .split([' ', '\t', '#', ';'])
            .filter(|word| !word.is_empty());
        (words.next() == Some("nameserver")).then(|| words.next()?.parse::<Ipv4Addr>().ok())?
    });
    let reachable = lines.filter(|address| !address.is_loopback());
    reachable.map(IpAddr::V4).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::variables::VARIABLES;
    use crate::executor::spec::LANE_PREFIX;

    #[test]
    fn the_script_has_the_same_default_for_addresses_as_the_server() {
        let mut variables = VARIABLES.iter();
        let subnets = variables.find(|variable| variable.name == "RUN_SUBNETS");
        let default = subnets.unwrap().default;
        assert!(SCRIPT.contains(&format!("${{RUN_SUBNETS:-{default}}}")));
        assert!(SCRIPT.contains(&format!("LANES={LANE_PREFIX}+")));
    }

    #[tokio::test]
    async fn a_report_counts_while_it_is_new() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules");
        let now = SystemTime::now();
        let verdict = async |after: u64| reported(&path, now + Duration::from_secs(after)).await;
        let ahead = async |by: u64| reported(&path, now - Duration::from_secs(by)).await;
        assert!(verdict(0).await.unwrap_err().starts_with("no report at"));
        for (text, expected) in [
            ("in place\n", Ok(())),
            ("", Err("the report is empty".to_owned())),
            (
                "missing: -A FORWARD\nmissing: more\n",
                Err("missing: -A FORWARD".to_owned()),
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(verdict(0).await, expected, "{text}");
        }
        std::fs::write(&path, "in place\n").unwrap();
        assert_eq!(verdict(60).await, Ok(()));
        assert!(verdict(80).await.unwrap_err().contains("old"));
        assert_eq!(ahead(60).await, Ok(()));
        assert!(ahead(80).await.unwrap_err().contains("ahead"));
    }

    #[test]
    fn resolvers_that_a_program_cannot_reach_are_left_out() {
        let text = "# comment\nnameserver 192.0.2.1 # first\nnameserver 127.0.0.53\nsearch example\n\
                    nameserver 2001:db8::1\n\tnameserver\t192.0.2.2;second\nnameservers 192.0.2.3\n";
        assert_eq!(
            resolvers(text)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            ["192.0.2.1", "192.0.2.2"]
        );
    }
}
