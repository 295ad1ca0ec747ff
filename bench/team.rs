//! A simulated team: conversations that think, print, use pandas, draw, upload, make mistakes and now and then never
//! stop, all on one server with the settings that it has by itself. Needs a container engine and the runner images.
//!
//! `cargo bench --bench team` has 200 of them for ten minutes; `-- 400 5` has 400 for five. It prints how long each kind
//! of request took, what was refused, how much memory there was of it, and whether anything was lost or left.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]
#![expect(clippy::print_stdout, reason = "the table is the output")]

#[path = "team/member.rs"]
mod member;
#[path = "team/requests.rs"]
mod requests;
#[path = "run.rs"]
mod run;
#[expect(dead_code, reason = "the other benchmark has the rest")]
#[path = "latency/server.rs"]
mod server;
#[path = "latency/stats.rs"]
mod stats;
#[path = "team/watch.rs"]
mod watch;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep};

use self::member::{Answered, Member, Told};
use self::server::Server;
use self::stats::Series;
use self::watch::Watch;

/// If nothing else is said.
const CONVERSATIONS: usize = 200;
const MINUTES: u64 = 10;
/// How long the server has to tidy up in the end.
const TIDY: Duration = Duration::from_secs(15);

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse().ok());
    let conversations = numbers
        .next()
        .map_or(CONVERSATIONS, |count: u64| usize::try_from(count).unwrap());
    let minutes = numbers.next().unwrap_or(MINUTES);
    run::run(measure(conversations, Duration::from_mins(minutes)));
}

async fn measure(conversations: usize, how_long: Duration) {
    println!(
        "{}\n\n{conversations} conversations, {} s",
        stats::machine(),
        how_long.as_secs()
    );
    let server = Server::start(&[]).await;
    server.wait_until_full().await;
    let watch = Watch::begin(&server.root());
    let end = Instant::now() + how_long;
    let members = (0..conversations).map(|number| Member::new(&server, number));
    let mut members: Vec<_> = members.collect();
    let all = async { join_all(members.iter_mut().map(|member| member.live_until(end))).await };
    let told = watch.beside(all).await;
    report(told.into_iter().flatten().collect());
    println!("\n{}", watch.report());
    let lost = join_all(members.iter().map(Member::has_lost)).await;
    println!(
        "conversations that lost something: {}",
        lost.into_iter().filter(|lost| *lost).count()
    );
    for member in &members {
        member.leave().await;
    }
    sleep(TIDY).await;
    println!(
        "left, without conversations: {} of their directories, {} containers",
        watch.conversations(),
        watch.containers().await
    );
    server.stop();
    println!(
        "left, without the server: {} containers",
        watch.containers().await
    );
}

/// A row for each kind of request, and what else was answered.
fn report(told: Vec<Told>) {
    let mut times: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    let mut others: BTreeMap<String, usize> = BTreeMap::new();
    for Told {
        kind,
        took,
        answered,
    } in told
    {
        match answered {
            Answered::AsExpected => times.entry(kind).or_default().push(took),
            Answered::Refused(code) => {
                *others.entry(format!("refused: {code}")).or_default() += 1;
            }
            Answered::Wrongly(answer) => {
                *others
                    .entry(format!("wrong: {kind}: {answer}"))
                    .or_default() += 1;
            }
        }
    }
    println!("\n{}", Series::HEADER);
    for (kind, times) in times {
        Series::new(kind, times).print(None);
    }
    for (other, count) in &others {
        println!("\n{count} times {other}");
    }
    if others.is_empty() {
        println!("\nnothing was refused, and nothing was wrong");
    }
}
