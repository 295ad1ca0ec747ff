//! What is measured.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::server::{Program, Server};
use super::stats::Series;

/// Pause between two runs of a conversation, as a quick caller makes it.
pub(crate) const BETWEEN: Duration = Duration::from_millis(30);
/// How long a conversation's libraries take to load after a cold first run, and the pause between runs until then.
const SOON: Duration = Duration::from_secs(2);
const BETWEEN_SOON: Duration = Duration::from_millis(100);
/// How long throughput is measured.
const BUSY_FOR: Duration = Duration::from_secs(5);

pub(crate) const PRINT: &Program = &Program {
    language: "python",
    code: "print(1)",
    prints: "1\n",
    stateful: false,
};
pub(crate) const PANDAS: &Program = &Program {
    language: "python",
    code: "import pandas as pd\ndf = pd.DataFrame({'a': range(100), 'b': list('xy') * 50})\n\
           print(df.describe())\nprint(df.groupby('b').a.mean())",
    prints: "mean",
    stateful: false,
};
pub(crate) const CELL: &Program = &Program {
    stateful: true,
    ..*PRINT
};
pub(crate) const TYPESCRIPT_CELL: &Program = &Program {
    stateful: true,
    ..*TYPESCRIPT
};
pub(crate) const TYPESCRIPT: &Program = &Program {
    language: "typescript",
    code: "const x: number = 1; console.log(x)",
    prints: "1\n",
    stateful: false,
};
pub(crate) const SHELL: &Program = &Program {
    language: "shell",
    code: "echo 1",
    prints: "1\n",
    stateful: false,
};

const MANY_FILES: &Program = &Program {
    language: "python",
    code: "for number in range(1000): open(f'{number}.txt', 'w').write('x')\nprint('made')",
    prints: "made",
    stateful: false,
};

/// Times `docker run` with the same limits, from start to end.
pub(crate) fn docker_run(image: &str, code: &str, count: usize) -> Series {
    Series::new(
        "`docker run`, print(1)",
        (0..count).map(|_| docker_run_once(image, code)).collect(),
    )
}

/// The same, once.
pub(crate) fn docker_run_once(image: &str, code: &str) -> Duration {
    let data = tempfile::tempdir().unwrap();
    let mount = format!(
        "--mount=type=bind,source={},target=/data",
        data.path().display()
    );
    let started = Instant::now();
    let mut child = Command::new("docker")
        .args(["run", "--rm", "-i", "--network=none", "--read-only"])
        .args(["--tmpfs=/tmp", "--cap-drop=ALL", "--pids-limit=128"])
        .args(["--security-opt=no-new-privileges", "--memory=256m"])
        .args(["--memory-swap=256m", "--cpus=0.5", "--log-driver=none"])
        .args(["--user=1000:1000", &mount, image])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(code.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"1\n");
    started.elapsed()
}

/// One run in each of many new conversations, with pauses in which the pool can fill again.
pub(crate) async fn new_conversations(
    server: &Server,
    name: &str,
    program: &Program,
    count: usize,
) -> Series {
    let mut times = Vec::new();
    for number in 0..count {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        times.push(timed(server, &format!("{name} {number}"), program).await);
    }
    Series::new(name, times)
}

/// Runs of one conversation, a little apart.
pub(crate) async fn following_runs(
    server: &Server,
    name: &str,
    program: &Program,
    count: usize,
) -> Series {
    server.run(name, program).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut times = Vec::new();
    for _ in 0..count {
        tokio::time::sleep(BETWEEN).await;
        times.push(timed(server, name, program).await);
    }
    Series::new(name, times)
}

/// Runs in the two seconds after a conversation's first run, for which nothing was warm.
pub(crate) async fn soon_after_cold(server: &Server, name: &str, conversations: usize) -> Series {
    let mut times = Vec::new();
    for number in 0..conversations {
        let conversation = format!("{name} {number}");
        server.run(&conversation, PRINT).await;
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            tokio::time::sleep(BETWEEN_SOON).await;
            times.push(timed(server, &conversation, PRINT).await);
        }
    }
    Series::new(name, times)
}

/// The same, in a conversation that has 1,000 files.
pub(crate) async fn run_with_files(server: &Server, name: &str, count: usize) -> Series {
    server.run(name, MANY_FILES).await;
    following_runs(server, name, PRINT, count).await
}

/// Runs of one conversation, a little apart, until `over`.
pub(crate) async fn runs_until(
    server: &Server,
    name: &str,
    program: &Program,
    over: &CancellationToken,
) -> Series {
    let mut times = Vec::new();
    while !over.is_cancelled() {
        tokio::time::sleep(BETWEEN).await;
        times.push(timed(server, name, program).await);
    }
    Series::new(name, times)
}

/// Many new conversations at the same time.
pub(crate) async fn burst(server: &Server, name: &str, program: &Program, count: usize) -> Series {
    let names: Vec<String> = (0..count)
        .map(|number| format!("{name} {number}"))
        .collect();
    let times = join_all(names.iter().map(|name| timed(server, name, program))).await;
    Series::new(name, times)
}

/// Runs per second, with conversations that each begin the next run as soon as the last has ended.
pub(crate) async fn busy(server: &Server, program: &Program, conversations: usize) -> f64 {
    let names: Vec<String> = (0..conversations)
        .map(|number| format!("busy {conversations} {number}"))
        .collect();
    join_all(names.iter().map(|name| server.run(name, program))).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let end = Instant::now() + BUSY_FOR;
    let count = async |name: &String| {
        let mut runs = 0_u32;
        while Instant::now() < end {
            server.run(name, program).await;
            runs += 1;
        }
        runs
    };
    let runs: u32 = join_all(names.iter().map(count)).await.into_iter().sum();
    f64::from(runs) / BUSY_FOR.as_secs_f64()
}

/// One run of a conversation.
pub(crate) async fn timed(server: &Server, conversation: &str, program: &Program) -> Duration {
    let started = Instant::now();
    server.run(conversation, program).await;
    started.elapsed()
}
