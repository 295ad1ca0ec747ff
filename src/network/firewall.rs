//! The host's packet filter, read back through the very script that installs the rules.

use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Installs, checks and removes the rules.
const SCRIPT: &str = include_str!("../../scripts/firewall.sh");
const WAIT: Duration = Duration::from_secs(10);
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Reads the rules back. Fails with the first thing that is missing, also when they cannot be read.
pub(super) async fn rules_are_in_place() -> Result<(), String> {
    let check = async {
        let mut child = Command::new("bash")
            .args(["-s", "--", "check"])
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
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            Err(said
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

/// The host's resolvers that a container can reach: those that are not on its loopback.
pub(super) async fn host_resolvers() -> Vec<IpAddr> {
    let text = tokio::fs::read_to_string(RESOLV_CONF)
        .await
        .unwrap_or_default();
    resolvers(&text)
}

fn resolvers(resolv_conf: &str) -> Vec<IpAddr> {
    let addresses = resolv_conf
        .lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver")?.trim().parse().ok());
    addresses
        .filter(|address: &IpAddr| !address.is_loopback())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_on_the_loopback_are_left_out() {
        let text = "# comment\nnameserver 192.0.2.1\nnameserver 127.0.0.53\nsearch example\nnameserver 2001:db8::1\n";
        assert_eq!(
            resolvers(text)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            ["192.0.2.1", "2001:db8::1"]
        );
    }
}
