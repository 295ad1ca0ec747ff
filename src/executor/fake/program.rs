//! The few lines of shell that the fake engine can run: enough to see output, files, exit codes and time pass.
//!
//! `echo`, with `>&2` or `> file`; `$NAME` in its words; `NAME=value`; `cat file`, or `cat` of what it is given to
//! read; `mkdir folder`; `sleep seconds`;
//! `exit code`; `kill -signal $$`; `yes`, which prints without end; `trap`, which makes a kernel ignore interrupts;
//! and `hold bytes`, after which it is as if it had so many of deleted files open.
//! In place of loops there is a command that no shell has: `each NAME words` prints a line for each word of a variable.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sandbox_init::Status;

use crate::executor::Stream;

/// Set by `trap`.
pub(super) const DEAF: &str = "?deaf";

/// Set by `hold`.
pub(super) const HELD: &str = "?held";

/// Set to what there is to read.
pub(super) const STDIN: &str = "?stdin";

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All of it was run.
    Through,
    /// A line of it failed, with this code.
    Failed(i32),
    /// It ended its own process.
    Left(Status),
}

impl End {
    /// As the status of the process.
    pub(super) fn status(self) -> Status {
        match self {
            Self::Through => Status::Exit(0),
            Self::Failed(code) => Status::Exit(code),
            Self::Left(status) => status,
        }
    }
}

/// Runs a program line by line. What it prints goes to `print`.
pub(super) async fn run(
    code: &str,
    env: &mut BTreeMap<String, String>,
    data: &Path,
    print: &(dyn Fn(Stream, String) + Sync),
) -> End {
    for line in code.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match command {
            "echo" => echo(rest, env, data, print).await,
            "each" => {
                let (name, words) = rest.split_once(' ').unwrap_or((rest, ""));
                for word in env.get(name).into_iter().flat_map(|all| all.split(' ')) {
                    print(Stream::Stdout, format!("{word} {words}\n"));
                }
            }
            "cat" if rest.is_empty() => {
                print(Stream::Stdout, env.remove(STDIN).unwrap_or_default());
            }
            "cat" => {
                let Ok(text) = tokio::fs::read_to_string(data.join(rest)).await else {
                    let complaint = format!("cat: {rest}: No such file or directory\n");
                    print(Stream::Stderr, complaint);
                    return End::Failed(1);
                };
                print(Stream::Stdout, text);
            }
            // A test that lacks the folder notices by what is not in it.
            "mkdir" => drop(tokio::fs::create_dir(data.join(rest)).await),
            "sleep" => {
                tokio::time::sleep(Duration::from_secs_f64(rest.parse().unwrap_or(0.0))).await;
            }
            "yes" => loop {
                print(Stream::Stdout, "y\n".repeat(4096));
                tokio::task::yield_now().await;
            },
            "exit" => return End::Left(Status::Exit(rest.parse().unwrap_or(2))),
            "kill" => return End::Left(Status::Signal(signal(rest))),
            "trap" => drop(env.insert(DEAF.to_owned(), String::new())),
            "hold" => drop(env.insert(HELD.to_owned(), rest.to_owned())),
            other => {
                let Some((name, value)) = other.split_once('=') else {
                    print(Stream::Stderr, format!("sh: {other}: not found\n"));
                    return End::Failed(127);
                };
                env.insert(name.to_owned(), value.to_owned());
            }
        }
    }
    End::Through
}

async fn echo(
    words: &str,
    env: &BTreeMap<String, String>,
    data: &Path,
    print: &(dyn Fn(Stream, String) + Sync),
) {
    let text = |words: &str| {
        let value = |word: &str| {
            word.strip_prefix('$')
                .map(|name| env.get(name).cloned().unwrap_or_default())
        };
        let words = words
            .trim()
            .split(' ')
            .map(|word| value(word).unwrap_or_else(|| word.to_owned()));
        words.collect::<Vec<_>>().join(" ") + "\n"
    };
    if let Some(words) = words.strip_suffix(">&2") {
        print(Stream::Stderr, text(words));
    } else if let Some((words, file)) = words.split_once('>') {
        // A test that cannot write notices by the missing file.
        let _ = tokio::fs::write(data.join(file.trim()), text(words)).await;
    } else {
        print(Stream::Stdout, text(words));
    }
}

/// The number in `-9 $$`.
fn signal(arguments: &str) -> i32 {
    let number = arguments
        .split(' ')
        .next()
        .and_then(|word| word.strip_prefix('-'));
    number.and_then(|number| number.parse().ok()).unwrap_or(15)
}
