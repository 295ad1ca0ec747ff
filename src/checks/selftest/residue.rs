//! A program leaves a mark wherever it can, and another one looks for it: the next of the same conversation, and one of
//! another conversation while the first one's files are there.

use super::Verdict;
use super::harness::{Attempt, Harness};
use super::inspection;
use crate::control::Control;
use crate::conversation::Conversation;

const LEAVE: &str = include_str!("programs/leave.py");
const FIND: &str = include_str!("programs/find.py");
/// Where programs may write besides `/data`, and where they should not be able to.
const SCRATCH: &str = "/tmp /dev /var/tmp /run";
const SECONDS: u64 = 20;

/// The next run of the same conversation.
pub(super) async fn between_runs(harness: &Harness<'_>) -> Verdict {
    let conversation = harness.conversation();
    let verdict = search(
        harness,
        Control::Residue,
        &conversation,
        &conversation,
        SCRATCH,
    )
    .await;
    harness.forget(&conversation).await;
    verdict
}

/// A run of another conversation, which looks everywhere.
pub(super) async fn between_conversations(harness: &Harness<'_>) -> Verdict {
    let (first, second) = (harness.conversation(), harness.conversation());
    let places = format!("{SCRATCH} /data");
    let verdict = search(harness, Control::Conversations, &first, &second, &places).await;
    for conversation in [&first, &second] {
        harness.forget(conversation).await;
    }
    verdict
}

async fn search(
    harness: &Harness<'_>,
    control: Control,
    leaves: &Conversation,
    finds: &Conversation,
    places: &str,
) -> Verdict {
    // Another conversation must not even see the first one's key, so the key is the mark.
    let key = leaves.key();
    let mark = if leaves == finds {
        hex::encode(rand::random::<[u8; 8]>())
    } else {
        key.short().to_owned()
    };
    let environment = [
        ("KRAM", mark.chars().rev().collect::<String>()),
        ("NUMBER", (rand::random::<u16>() | 1).to_string()),
        ("WHERE", places.to_owned()),
    ];
    let attempt = |program| Attempt {
        program,
        environment: &environment,
        seconds: SECONDS,
        ..Attempt::default()
    };
    let left = match harness.run(leaves, attempt(LEAVE)).await {
        Ok(ended) if ended.last_line().starts_with("left ") => ended.last_line().to_owned(),
        Ok(ended) => {
            return Verdict::Fail(format!("it could not be tried: {}", ended.ending()));
        }
        Err(verdict) => return verdict,
    };
    // A sandbox that did not come back clean does not serve again, which is just as good and has to be reported.
    let is_lost = leaves == finds && harness.has_lost_its_own(finds).await;
    let place = if is_lost { ", in a new sandbox" } else { "" };
    let program = inspection::single(control, FIND);
    match harness.run(finds, attempt(&program)).await {
        Ok(ended) => match inspection::judge(control, &ended) {
            Verdict::Pass(found) => Verdict::Pass(format!("{left} marks: {found}{place}")),
            verdict => verdict,
        },
        Err(verdict) => verdict,
    }
}
