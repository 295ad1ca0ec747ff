//! Containers must have the directories that the server means, under whatever name it renames them to. An engine that
//! finds them elsewhere, or copies them, would lose files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio_util::sync::CancellationToken;

use super::Verdict;
use super::harness::Harness;
use crate::conversation::Conversation;
use crate::executor::Stream;
use crate::executor::outage::chain;
use crate::executor::spec::NetworkAccess;
use crate::gate::{Visit, Wants};
use crate::sandbox::{Capture, Program};
use crate::workspace::Existing;

/// What the server writes into.
const FILE: &str = "seen.txt";
/// The languages in which it is tried, and a program that prints the file. The shell's image is the smaller one.
const PROGRAMS: [(&str, &str); 2] = [
    ("shell", "cat seen.txt"),
    ("python", "print(open('seen.txt').read(), end='')"),
];
/// The time limit of the program.
const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of output that are examined.
const OUTPUT: usize = 1 << 10;

pub(super) async fn holds(harness: &Harness<'_>) -> Verdict {
    let has_runner = |language: &str| harness.has_runner(language).is_ok();
    let Some((language, program)) = PROGRAMS.into_iter().find(|(name, _)| has_runner(name)) else {
        let why = "there is no shell runner, and no python runner either, in which this is tried";
        return Verdict::Skipped(why.to_owned());
    };
    let conversation = harness.conversation();
    let verdict = try_it(harness, &conversation, language, program).await;
    harness.forget(&conversation).await;
    verdict.unwrap_or_else(|why| Verdict::Fail(format!("it could not be tried: {why:#}")))
}

/// Goes the way of a run that gets its sandbox from the pool: through the gate.
async fn try_it(
    harness: &Harness<'_>,
    conversation: &Conversation,
    language: &str,
    program: &str,
) -> anyhow::Result<Verdict> {
    let gate = &harness.parts.gate;
    let never = CancellationToken::new();
    let visit = Visit {
        key: conversation.key(),
        wants: Wants::Check {
            network: NetworkAccess::None,
            may_be_warm: false,
        },
        cancel: &never,
    };
    let mut entered = gate.enter(visit).await?;
    entered.admit(|_| {}).await?;
    let view = gate.catalog.view();
    let runner = view.find(language).context("the runner is gone")?;
    let files = &harness.parts.files;
    let slot = files.workspaces.new_slot().await?;
    let mut sandbox = match harness.parts.pool.start_on_slot(runner, &slot).await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            let found = "no container starts with a directory of SANDBOX_ROOT";
            return Ok(Verdict::Fail(format!("{found}: {}", chain(&error))));
        }
    };
    let adopted = files.workspaces.adopt(slot, conversation.key()).await?;
    adopted.map_err(|_| anyhow!("somebody else has made its directory"))?;
    let word = hex::encode(rand::random::<[u8; 16]>());
    let upload = files.check_upload(FILE, &STANDARD.encode(&word))?;
    files.store(conversation, upload, Existing::Replace).await?;
    let capture = Arc::new(Capture::new(OUTPUT));
    let program = Program {
        code: program.to_owned(),
        stdin: None,
        env: BTreeMap::new(),
        deadline: DEADLINE,
    };
    let stop = entered.stop.requested();
    sandbox
        .run(&program, Arc::clone(&capture), false, stop)
        .await?;
    let captured = capture.snapshot();
    Ok(judge(
        &word,
        &captured.text(Stream::Stdout),
        &captured.text(Stream::Stderr),
    ))
}

fn judge(word: &str, stdout: &str, stderr: &str) -> Verdict {
    if stdout.trim_end() == word {
        return Verdict::Pass("it follows the directory".to_owned());
    }
    let output = [stdout, stderr].concat();
    let output = output.lines().last().unwrap_or("nothing");
    Verdict::Fail(format!(
        "the container does not see what the server writes there once it is renamed: {output}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_must_be_seen() {
        assert_eq!(judge("word", "word", "").into_str(), "pass");
        assert_eq!(judge("word", "word\n", "").into_str(), "pass");
        let missing = "cat: seen.txt: No such file or directory\n";
        for (stdout, stderr, why) in [
            ("", missing, "No such file"),
            ("another", "", "another"),
            ("", "", "nothing"),
        ] {
            let verdict = judge("word", stdout, stderr);
            assert_eq!(verdict.into_str(), "FAIL");
            assert!(verdict.found().contains(why), "{verdict:?}");
        }
    }
}
