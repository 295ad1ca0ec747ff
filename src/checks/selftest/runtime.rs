//! The engine's runtime must do what the server relies on: mount the workspace, list it, read and write it, end a
//! program that does not want to, and take the container away. Not every runtime does: some cannot list a mount on a
//! new kernel, others hang at the start.

use std::time::Duration;

use super::Verdict;
use super::harness::{Attempt, Ended, Harness, until};
use crate::conversation::Conversation;
use crate::run::outcome::RunStatus;

const PYTHON: &str = include_str!("programs/runtime.py");
const SHELL: &str = include_str!("programs/runtime.sh");
/// Its time limit, after which it must be gone.
const SECONDS: u64 = 2;
/// How long after the answer the engine may take to remove the container.
const REMOVAL: Duration = Duration::from_secs(20);
/// The time limit for all of it, for runtimes that hang.
const PATIENCE: Duration = Duration::from_secs(40);
const WORD: &str = "before";

/// What was seen.
#[derive(Debug)]
struct Seen {
    ended: Ended,
    written: Option<Vec<u8>>,
    removed: bool,
}

pub(super) async fn holds(harness: &Harness<'_>) -> Verdict {
    let conversation = harness.conversation();
    let seen = tokio::time::timeout(PATIENCE, try_it(harness, &conversation)).await;
    harness.forget(&conversation).await;
    match seen {
        Ok(Ok(seen)) => judge(&seen),
        Ok(Err(verdict)) => verdict,
        Err(_) => Verdict::Fail(format!("no answer after {} s", PATIENCE.as_secs())),
    }
}

async fn try_it(harness: &Harness<'_>, conversation: &Conversation) -> Result<Seen, Verdict> {
    use base64::Engine as _;
    let content = base64::engine::general_purpose::STANDARD.encode(WORD);
    let cannot =
        |error: crate::files::FilesError| Verdict::Fail(format!("it could not be tried: {error}"));
    let upload = harness.parts.files.check_upload("seen.txt", &content);
    let stored = harness
        .parts
        .files
        .store(
            conversation,
            upload.map_err(cannot)?,
            crate::workspace::Existing::Replace,
        )
        .await;
    stored.map_err(cannot)?;
    // The shell's image is the smaller one.
    let shell = harness.has_runner("shell").is_ok();
    let attempt = Attempt {
        program: if shell { SHELL } else { PYTHON },
        seconds: SECONDS,
        language: shell.then_some("shell"),
        ..Attempt::default()
    };
    let ended = harness.run(conversation, attempt).await?;
    let written = harness
        .parts
        .files
        .read(conversation, "written.txt", 0, 64)
        .await;
    let key = conversation.key();
    let removed = || async {
        let containers = harness
            .executor()
            .containers("sandbox.conversation", key.short());
        containers
            .await
            .is_ok_and(|containers| containers.is_empty())
    };
    Ok(Seen {
        ended,
        written: written.ok().map(|piece| piece.bytes),
        removed: until(REMOVAL, removed).await,
    })
}

fn judge(seen: &Seen) -> Verdict {
    let stdout = &seen.ended.outcome.stdout;
    let expected: Vec<u8> = WORD.bytes().rev().collect();
    if !seen.ended.was_run() {
        return Verdict::Fail(format!("it did not start: {}", seen.ended.ending()));
    }
    if !stdout
        .lines()
        .any(|line| line.starts_with("lists") && line.contains("seen.txt"))
    {
        return Verdict::Fail(format!("/data was not listed: {}", seen.ended.ending()));
    }
    if seen.written.as_ref() != Some(&expected) {
        return Verdict::Fail(format!("/data was not written: {}", seen.ended.ending()));
    }
    if seen.ended.outcome.status != RunStatus::Timeout {
        return Verdict::Fail(format!("it was not killed: {}", seen.ended.ending()));
    }
    Verdict::when(
        seen.removed,
        if seen.removed {
            "mounts, lists, writes, is killed and gone"
        } else {
            "its container stays"
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::harness::ended;
    use super::*;

    #[test]
    fn each_step_must_be_seen() {
        let seen = |status, stdout: &str, written: &[u8], removed| Seen {
            ended: ended(status, stdout),
            written: Some(written.to_vec()),
            removed,
        };
        let stdout = "lists main.sh seen.txt\nwrote\n";
        let held = seen(RunStatus::Timeout, stdout, b"erofeb", true);
        assert_eq!(judge(&held).into_str(), "pass");
        for (broken, why) in [
            (seen(RunStatus::EngineLost, "", b"", true), "did not start"),
            (
                seen(RunStatus::Timeout, "lists *\n", b"erofeb", true),
                "not listed",
            ),
            (seen(RunStatus::Timeout, stdout, b"", true), "not written"),
            (seen(RunStatus::Ok, stdout, b"erofeb", true), "not killed"),
            (seen(RunStatus::Timeout, stdout, b"erofeb", false), "stays"),
        ] {
            let verdict = judge(&broken);
            assert!(
                matches!(&verdict, Verdict::Fail(found) if found.contains(why)),
                "{verdict:?}"
            );
        }
    }
}
