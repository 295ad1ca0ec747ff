//! A program leaves a mark wherever it can, and another one looks for it: the next of the same conversation, one of
//! another conversation while the first one's files are there, and one of another tenant in a conversation of that id.

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

/// A run of another tenant, in a conversation that both call the same. What the server lists for it is looked at too.
pub(super) async fn between_tenants(harness: &Harness<'_>) -> Verdict {
    let [first, second] = match harness.conversations_of_one_id() {
        Ok(both) => both,
        Err(error) => return Verdict::Fail(format!("it could not be tried: {error}")),
    };
    let places = format!("{SCRATCH} /data");
    let found = search(harness, Control::Tenants, &first, &second, &places).await;
    let mark = first.key().short();
    let lists = async |conversation| harness.size(conversation, mark).await > 0;
    let verdict = match found {
        Verdict::Pass(_) if !lists(&first).await => {
            Verdict::Fail("it could not be tried: the mark is not listed".to_owned())
        }
        Verdict::Pass(_) if lists(&second).await => {
            Verdict::Fail("the mark is listed for both".to_owned())
        }
        verdict => verdict,
    };
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
