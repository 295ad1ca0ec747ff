//! Containers must have the directories that the server means, on whatever machine they are. An engine that finds them
//! elsewhere, or copies them, would lose files.
//!
//! Where a container still finds its directory once it is renamed, sandboxes can be started ahead. A file system that
//! goes by paths loses it: there, each conversation's first run starts a sandbox of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio_util::sync::CancellationToken;

use super::harness::{Harness, Warmth, until};
use super::{Row, Verdict};
use crate::control::Control;
use crate::conversation::Conversation;
use crate::executor::Stream;
use crate::executor::outage::chain;
use crate::executor::spec::NetworkAccess;
use crate::gate::admission::Start;
use crate::gate::{Entered, Visit, Wants};
use crate::pool::Directory;
use crate::runner::Runner;
use crate::sandbox::{Capture, Program, Sandbox};
use crate::workspace::Existing;

/// What the server writes, and what the program answers with.
const ASKED: &str = "asked.txt";
const ANSWER: &str = "answer.txt";
/// The languages in which it is tried, and a program that prints the one and writes the other. The shell's image is the
/// smaller one.
const PROGRAMS: [(&str, &str); 2] = [
    ("shell", "cat asked.txt\necho WORD > answer.txt"),
    (
        "python",
        "print(open('asked.txt').read(), end='')\nprint('WORD', file=open('answer.txt', 'w'))",
    ),
];
/// The time limit of the program.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long the server may take to see what a program has written.
const SEEN_WITHIN: Duration = Duration::from_secs(1);
/// Bytes of output that are examined.
const OUTPUT: usize = 1 << 10;
/// What is said where directories cannot be renamed.
const STAYS: &str = "the volume loses a directory that is renamed while a container has it: no sandbox is started ahead, \
                     and POOL_SIZE has no effect";

/// What becomes of files.
#[derive(Debug, PartialEq, Eq)]
enum Sharing {
    /// Each side sees what the other wrote, also once the directory was renamed, on so many nodes.
    Follows(usize),
    /// Only as long as it keeps its name.
    Stays,
    /// They do not.
    Lost(String),
}

/// On how many nodes each side has seen what the other one wrote, as far as nodes are known; or else what was lost.
type Shared = Result<usize, String>;

/// Also notes whether directories can be renamed.
pub(super) async fn row(harness: &Harness<'_>) -> Row {
    let row = |verdict| Row::new(Control::Workspace, Warmth::Cold, verdict);
    let has_runner = |language: &str| harness.has_runner(language).is_ok();
    let Some((language, program)) = PROGRAMS.into_iter().find(|(name, _)| has_runner(name)) else {
        let why = "there is no shell runner, and no python runner either, in which this is tried";
        return row(Verdict::Skipped(why.to_owned()));
    };
    let trial = Trial {
        harness,
        language,
        program,
    };
    let sharing = match Box::pin(trial.sharing()).await {
        Ok(sharing) => sharing,
        Err(why) => return Row::untried(Control::Workspace, Warmth::Cold, &format!("{why:#}")),
    };
    harness
        .parts
        .pool
        .set_follows_renames(sharing != Sharing::Stays);
    match sharing {
        Sharing::Follows(0) => row(Verdict::Pass("it follows the directory".to_owned())),
        Sharing::Follows(nodes) => row(Verdict::Pass(format!(
            "it follows the directory, tried on {nodes} {}",
            if nodes == 1 { "node" } else { "nodes" }
        ))),
        Sharing::Stays => Row {
            notes: vec![STAYS.to_owned()],
            ..row(Verdict::Pass("it sees the directory".to_owned()))
        },
        Sharing::Lost(why) => row(Verdict::Fail(why)),
    }
}

struct Trial<'a> {
    harness: &'a Harness<'a>,
    language: &'static str,
    program: &'static str,
}

impl Trial<'_> {
    async fn sharing(&self) -> anyhow::Result<Sharing> {
        let lost = match self.in_own_conversation(true).await? {
            Ok(nodes) => return Ok(Sharing::Follows(nodes)),
            Err(lost) => lost,
        };
        let unrenamed = self.in_own_conversation(false).await?;
        Ok(unrenamed.map_or(Sharing::Lost(lost), |_| Sharing::Stays))
    }

    async fn in_own_conversation(&self, renamed: bool) -> anyhow::Result<Shared> {
        let conversation = self.harness.conversation();
        let shared = self.shared(&conversation, renamed).await;
        self.harness.forget(&conversation).await;
        shared
    }

    /// Goes the way of a run: through the gate.
    async fn shared(&self, conversation: &Conversation, renamed: bool) -> anyhow::Result<Shared> {
        let (parts, key) = (self.harness.parts, conversation.key());
        let never = CancellationToken::new();
        let visit = Visit {
            conversation,
            wants: Wants::Check {
                network: NetworkAccess::None,
                may_be_warm: false,
            },
            cancel: &never,
        };
        let mut entered = parts.gate.enter(visit).await?;
        entered.admit(Start::Ready, |_| {}).await?;
        let view = parts.gate.catalog.view();
        let runner = view.find(self.language).context("the runner is gone")?;
        let mut sandboxes = Vec::new();
        if renamed {
            let workspaces = &parts.files.workspaces;
            let slot = workspaces.new_slot().await?;
            match self.start(runner, Directory::Slot(&slot)).await {
                Ok(sandbox) => sandboxes.push(sandbox),
                Err(why) => return Ok(Err(why)),
            }
            let adopted = workspaces.adopt(slot, key).await?;
            adopted.map_err(|_| anyhow!("somebody else has made its directory"))?;
        }
        // Beside the first one, so that it is on another node, if there is one.
        let workspace = parts.files.workspaces.create(key).await?;
        match self.start(runner, Directory::Workspace(&workspace)).await {
            Ok(sandbox) => sandboxes.push(sandbox),
            Err(why) => return Ok(Err(why)),
        }
        let nodes = self.harness.executor().containers_by_node().len();
        for sandbox in sandboxes {
            let lost = self.exchange(conversation, sandbox, &entered).await?;
            if let Some(lost) = lost {
                return Ok(Err(lost));
            }
        }
        Ok(Ok(nodes))
    }

    async fn start(&self, runner: &Runner, directory: Directory<'_>) -> Result<Sandbox, String> {
        let started = self.harness.parts.pool.start_bare(runner, directory).await;
        started.map_err(|error| {
            let found = "no container starts with a directory of SANDBOX_ROOT";
            format!("{found}: {}", chain(&error))
        })
    }

    /// The server writes a word and the program answers with another one.
    async fn exchange(
        &self,
        conversation: &Conversation,
        mut sandbox: Sandbox,
        entered: &Entered,
    ) -> anyhow::Result<Option<String>> {
        let files = &self.harness.parts.files;
        let [asked, answer] = [(); 2].map(|()| hex::encode(rand::random::<[u8; 16]>()));
        let upload = files.check_upload(ASKED, &STANDARD.encode(&asked))?;
        files.store(conversation, upload, Existing::Replace).await?;
        let capture = Arc::new(Capture::new(OUTPUT));
        let program = Program {
            code: self.program.replace("WORD", &answer),
            stdin: None,
            env: BTreeMap::new(),
            deadline: DEADLINE,
        };
        let stop = entered.stop.requested();
        sandbox
            .run(&program, Arc::clone(&capture), false, stop)
            .await?;
        let captured = capture.snapshot();
        let [stdout, stderr] = [Stream::Stdout, Stream::Stderr].map(|one| captured.text(one));
        if let Some(lost) = unseen(&asked, &stdout, &stderr) {
            return Ok(Some(lost));
        }
        let is_answered = || async {
            let read = files.read(conversation, ANSWER, 0, OUTPUT as u64).await;
            read.is_ok_and(|piece| piece.bytes.trim_ascii() == answer.as_bytes())
        };
        let is_seen = until(SEEN_WITHIN, is_answered).await;
        let unseen = "the server does not see what a container writes there".to_owned();
        Ok((!is_seen).then_some(unseen))
    }
}

/// Why a program has not seen what the server wrote.
fn unseen(word: &str, stdout: &str, stderr: &str) -> Option<String> {
    if stdout.trim_end() == word {
        return None;
    }
    let output = [stdout, stderr].concat();
    let output = output.lines().last().unwrap_or("nothing");
    Some(format!(
        "the container does not see what the server writes there: {output}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_must_be_seen() {
        assert_eq!(unseen("word", "word", ""), None);
        assert_eq!(unseen("word", "word\n", ""), None);
        let missing = "cat: asked.txt: No such file or directory\n";
        for (stdout, stderr, why) in [
            ("", missing, "No such file"),
            ("another", "", "another"),
            ("", "", "nothing"),
        ] {
            let lost = unseen("word", stdout, stderr).unwrap();
            assert!(lost.contains(why), "{lost}");
        }
    }
}
