//! What `network: true` opens. If it is refused, it must open nothing. Otherwise a program dials the host's own
//! addresses, where the selftest listens, and another run that listens for it; nothing else is dialled. That private
//! ranges are closed is read back from the rules.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Verdict;
use super::harness::{Attempt, BEGINNING, Ended, Harness, until};
use crate::checks::network;
use crate::conversation::Conversation;
use crate::executor::spec::NetworkAccess;
use crate::gate::network::NetworkState;

const DIAL: &str = include_str!("programs/dial.py");
const LISTEN: &str = include_str!("programs/listen.py");
const SECONDS: u64 = 50;
/// Where the other run listens.
const PORT: u16 = 8000;

pub(super) async fn holds(harness: &Harness<'_>) -> Verdict {
    let engine = &harness.test.engine;
    let rules = match network::check(engine, harness.parts).await {
        Ok(NetworkState::Closed(reason)) => {
            return Verdict::Pass(format!("network: true is refused, {reason}"));
        }
        Ok(NetworkState::Open { dns }) => dns,
        Err(error) => return Verdict::Fail(format!("it could not be tried: {error}")),
    };
    let (listens, dials) = (harness.conversation(), harness.conversation());
    let found = Box::pin(dial(harness, rules, &listens, &dials)).await;
    for conversation in [&listens, &dials] {
        harness.forget(conversation).await;
    }
    match found {
        Ok((ended, words)) => judge(&ended, &words, engine.allow_network),
        Err(verdict) => verdict,
    }
}

/// Returns what the dialling program said, and the words that it must not have heard.
async fn dial(
    harness: &Harness<'_>,
    dns: Vec<IpAddr>,
    listens: &Conversation,
    dials: &Conversation,
) -> Result<(Ended, [String; 2]), Verdict> {
    let cannot =
        |error: &dyn std::fmt::Display| Verdict::Fail(format!("it could not be tried: {error}"));
    let host = network::Listener::open()
        .await
        .map_err(|error| cannot(&error))?;
    let word = hex::encode(rand::random::<[u8; 16]>());
    let access = NetworkAccess::Bridge { dns };
    let environment = [("PORT", PORT.to_string()), ("WORD", word.clone())];
    let listening = harness.run(
        listens,
        Attempt {
            program: LISTEN,
            environment: &environment,
            seconds: SECONDS,
            network: Some(access.clone()),
            ..Attempt::default()
        },
    );
    let dialling = async {
        let began = until(BEGINNING, || async {
            harness.size(listens, "address").await > 0
        })
        .await;
        if !began {
            return Err(cannot(&"the other run does not listen"));
        }
        let address = harness.parts.files.read(listens, "address", 0, 64).await;
        let address = address.map_err(|error| cannot(&error))?.bytes;
        let targets: BTreeSet<String> = network::host_targets()
            .iter()
            .map(|target| format!("{target}|{}", host.port))
            .chain([format!("{}|{PORT}", String::from_utf8_lossy(&address))])
            .collect();
        let targets = targets.into_iter().collect::<Vec<_>>().join(" ");
        let attempt = Attempt {
            program: DIAL,
            environment: &[("TARGETS", targets)],
            seconds: SECONDS,
            network: Some(access.clone()),
            ..Attempt::default()
        };
        harness.run(dials, attempt).await
    };
    // Dropping the listening run ends it.
    tokio::select! {
        ended = dialling => ended.map(|ended| (ended, [host.word.clone(), word])),
        listened = listening => {
            Err(cannot(&listened.map_or_else(|verdict| verdict.found().to_owned(), |ended| ended.ending())))
        }
        () = host.answer() => Err(cannot(&"the listener ended")),
    }
}

fn judge(ended: &Ended, words: &[String; 2], without_rules: bool) -> Verdict {
    let stdout = &ended.outcome.stdout;
    let [host, other] = words;
    if stdout.contains(host.as_str()) {
        return Verdict::Fail("a program with network: true reaches the host".to_owned());
    }
    if stdout.contains(other.as_str()) {
        return Verdict::Fail("a program with network: true reaches another run".to_owned());
    }
    if ended.last_line() != "done" {
        return Verdict::Fail(format!("it did not get to its end: {}", ended.ending()));
    }
    let shut = stdout
        .lines()
        .filter(|line| line.starts_with("shut "))
        .count();
    if without_rules {
        return Verdict::Fail(format!(
            "{shut} addresses are shut, but ALLOW_NETWORK=1 does without proof of the rules for private networks"
        ));
    }
    Verdict::when(
        shut > 1,
        format!("{shut} addresses are shut, and the rules are in place"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::harness::ended;
    use super::*;
    use crate::run::outcome::RunStatus;

    #[test]
    fn a_word_that_came_through_tells() {
        let words = ["hostword".to_owned(), "otherword".to_owned()];
        let judge = |stdout: &str, without_rules| {
            judge(&ended(RunStatus::Ok, stdout), &words, without_rules).into_str()
        };
        assert_eq!(
            judge("shut 192.0.2.1\nshut 192.0.2.2\ndone\n", false),
            "pass"
        );
        assert_eq!(
            judge("shut 192.0.2.1\nshut 192.0.2.2\ndone\n", true),
            "FAIL"
        );
        assert_eq!(
            judge("reached 192.0.2.1 hostword\nshut 192.0.2.2\ndone\n", false),
            "FAIL"
        );
        assert_eq!(
            judge("shut 192.0.2.1\nreached 192.0.2.2 otherword\ndone\n", false),
            "FAIL"
        );
        assert_eq!(judge("shut 192.0.2.1\nshut 192.0.2.2\n", false), "FAIL");
        assert_eq!(judge("done\n", false), "FAIL", "nothing was dialled");
    }
}
