//! Links and FIFOs in `/data` must not lead the server out of the workspace, neither when it serves a file nor when it
//! stores one. The program is even told where the other conversation is.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::harness::{Attempt, Harness};
use super::{Download, Verdict};
use crate::audit::Origin;
use crate::conversation::Conversation;
use crate::workspace::Existing;

const PROGRAM: &str = include_str!("programs/links.py");
/// A file opens at once or, if it waits for a writer, never.
const WAIT: Duration = Duration::from_secs(5);
/// What is uploaded over what was planted.
const UPLOADED: &[u8] = b"uploaded";
/// The one planted name that is a file.
const REAL: &str = "real.txt";

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    planted: usize,
    /// Whether the one real file can be downloaded.
    real: bool,
    /// Names that served something.
    served: Vec<String>,
    /// Names that kept the server waiting.
    stuck: Vec<String>,
    /// Whether the other conversation's file is unchanged, and the only one.
    intact: bool,
}

pub(super) async fn holds(harness: &Harness<'_>, download: &Download) -> Verdict {
    let (own, other) = (harness.conversation(), harness.conversation());
    let canary = hex::encode(rand::random::<[u8; 16]>());
    let seen = try_links(harness, download, &own, &other, &canary).await;
    for conversation in [&own, &other] {
        harness.forget(conversation).await;
    }
    match seen {
        Ok(seen) => judge(&seen),
        Err(verdict) => verdict,
    }
}

async fn try_links(
    harness: &Harness<'_>,
    download: &Download,
    own: &Conversation,
    other: &Conversation,
    canary: &str,
) -> Result<Seen, Verdict> {
    let cannot =
        |error: &dyn std::error::Error| Verdict::Fail(format!("it could not be tried: {error}"));
    let content = STANDARD.encode(canary);
    let canary_name = "canary.txt";
    let upload = harness.parts.files.check_upload(canary_name, &content);
    let upload = upload.map_err(|error| cannot(&error))?;
    let stored = harness
        .parts
        .files
        .store(other, upload, Existing::Replace)
        .await;
    stored.map_err(|error| cannot(&error))?;
    let attempt = Attempt {
        program: PROGRAM,
        environment: &[("OTHER", other.key().as_str().to_owned())],
        seconds: 10,
        ..Attempt::default()
    };
    let ended = harness.run(own, attempt).await?;
    let planted: Vec<_> = ended.outcome.stdout.lines().map(str::to_owned).collect();
    let mut seen = Seen {
        planted: planted.len(),
        real: fetch(harness, download, own, REAL).await == Fetched::Some,
        ..Seen::default()
    };
    for name in &planted {
        match fetch(harness, download, own, name).await {
            Fetched::None => {}
            Fetched::Some => seen.served.push(name.clone()),
            Fetched::Stuck => seen.stuck.push(name.clone()),
        }
    }
    let uploaded = STANDARD.encode(UPLOADED);
    for name in &planted {
        // Replacing a link by a file is fine, and so is refusing: only what it led to counts.
        let (name, content) = (name.clone(), uploaded.clone());
        let (conversations, origin) = (harness.parts.conversations(), Origin::own());
        let upload = conversations.upload(&origin, own, name.clone(), content, Existing::Replace);
        if tokio::time::timeout(WAIT, upload).await.is_err() {
            seen.stuck.push(format!("upload to {name}"));
        }
    }
    let files = harness
        .parts
        .files
        .list(other)
        .await
        .map_err(|error| cannot(&error))?;
    let kept = harness.parts.files.read(other, canary_name, 0, 1024).await;
    seen.intact =
        files.files.len() == 1 && kept.is_ok_and(|piece| piece.bytes == canary.as_bytes());
    Ok(seen)
}

#[derive(Debug, PartialEq, Eq)]
enum Fetched {
    None,
    Some,
    Stuck,
}

/// Gets a file in both possible ways: by the route and by the tool.
async fn fetch(
    harness: &Harness<'_>,
    download: &Download,
    conversation: &Conversation,
    name: &str,
) -> Fetched {
    let both = async {
        let path = format!("{}/{name}", conversation.key().as_str());
        let by_route = download(path).await.is_some();
        let by_tool = harness
            .parts
            .files
            .read(conversation, name, 0, 64)
            .await
            .is_ok();
        by_route || by_tool
    };
    match tokio::time::timeout(WAIT, both).await {
        Ok(true) => Fetched::Some,
        Ok(false) => Fetched::None,
        Err(_) => Fetched::Stuck,
    }
}

fn judge(seen: &Seen) -> Verdict {
    if seen.planted == 0 || !seen.real {
        return Verdict::Fail(format!(
            "it could not be tried: {} links, real file served: {}",
            seen.planted, seen.real
        ));
    }
    if !seen.served.is_empty() {
        return Verdict::Fail(format!("served {}", seen.served.join(", ")));
    }
    if !seen.stuck.is_empty() {
        return Verdict::Fail(format!(
            "kept the server waiting: {}",
            seen.stuck.join(", ")
        ));
    }
    Verdict::when(
        seen.intact,
        if seen.intact {
            format!("{} names, none led anywhere", seen.planted)
        } else {
            "an upload reached another conversation".to_owned()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_real_file_may_be_served() {
        let held = || Seen {
            planted: 3,
            real: true,
            intact: true,
            ..Seen::default()
        };
        let name = || vec!["relative.txt".to_owned()];
        assert_eq!(judge(&held()).into_str(), "pass");
        for broken in [
            Seen {
                served: name(),
                ..held()
            },
            Seen {
                stuck: name(),
                ..held()
            },
            Seen {
                intact: false,
                ..held()
            },
            // Where nothing is served at all, nothing is proved.
            Seen {
                real: false,
                ..held()
            },
            Seen {
                planted: 0,
                ..held()
            },
        ] {
            assert_eq!(judge(&broken).into_str(), "FAIL", "{broken:?}");
        }
    }
}
