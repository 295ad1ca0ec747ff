//! Elections in a store in memory, with time that is paused.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::elector::{Elector, End, NOT_RENEWED, Watched};
use super::standing::{Leader, Standing};
use crate::executor::leaders::{LeaderEntry, LeaderStore};
use crate::executor::{ErrorKind, ExecutorError};

const DURATION: Duration = Duration::from_secs(10);
/// A lead that is not renewed any more.
const TENURE: Duration = Duration::from_secs(7);
/// How long a hand-over takes at most.
const LOOK: Duration = Duration::from_millis(500);
/// Longer than anything here.
const AGES: Duration = Duration::from_mins(10);

/// A store in memory.
#[derive(Debug, Default)]
struct Fake {
    entry: Mutex<(u32, Option<LeaderEntry>)>,
}

impl Fake {
    fn set(&self, leader: Option<&str>) -> LeaderEntry {
        let mut entry = self.entry.lock();
        entry.0 += 1;
        let new = LeaderEntry {
            version: entry.0.to_string(),
            leader: leader.map(str::to_owned),
        };
        entry.1 = Some(new.clone());
        new
    }

    fn leader(&self) -> Option<String> {
        self.entry.lock().1.as_ref()?.leader.clone()
    }
}

/// One server's way to it.
#[derive(Debug)]
struct Way {
    store: Arc<Fake>,
    reaches: Mutex<Reaches>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Reaches {
    All,
    /// Requests arrive, and their answers do not.
    Requests,
    Nothing,
}

impl Way {
    async fn pass<T>(&self, done: impl FnOnce() -> T) -> T {
        let reaches = *self.reaches.lock();
        let done = (reaches != Reaches::Nothing).then(done);
        match done {
            Some(done) if reaches == Reaches::All => done,
            _ => std::future::pending().await,
        }
    }
}

#[async_trait]
impl LeaderStore for Way {
    async fn read(&self) -> Result<Option<LeaderEntry>, ExecutorError> {
        self.pass(|| Ok(self.store.entry.lock().1.clone())).await
    }

    async fn write(
        &self,
        leader: Option<&str>,
        over: Option<&str>,
    ) -> Result<LeaderEntry, ExecutorError> {
        let write = || {
            let there = self.store.entry.lock().1.clone();
            if there.map(|entry| entry.version).as_deref() == over {
                return Ok(self.store.set(leader));
            }
            Err(ExecutorError {
                kind: ErrorKind::Conflict,
                operation: "write",
                source: "another version is there".into(),
            })
        };
        self.pass(write).await
    }
}

/// A server that takes part.
struct Server {
    name: String,
    way: Arc<Way>,
    standing: watch::Receiver<Standing>,
    until: Arc<Mutex<Option<Instant>>>,
    stop: CancellationToken,
    election: AbortOnDropHandle<End>,
}

impl Server {
    fn start(store: &Arc<Fake>) -> Self {
        let way = Arc::new(Way {
            store: Arc::clone(store),
            reaches: Mutex::new(Reaches::All),
        });
        let me = Leader::new("server-0", ([10, 0, 0, 1], 8080).into());
        let name = me.name.clone();
        let (sender, standing) = watch::channel(Standing::Unknown);
        let elector = Elector::new(Arc::clone(&way) as _, me, DURATION, sender);
        let until = Arc::new(Mutex::new(None));
        let told = Arc::clone(&until);
        let extend = move |until| *told.lock() = Some(until);
        let stop = CancellationToken::new();
        let election = TaskTracker::new().spawn(elector.run(stop.clone(), extend));
        Self {
            name,
            way,
            standing,
            until,
            stop,
            election: AbortOnDropHandle::new(election),
        }
    }

    async fn is(&self, wanted: impl Fn(&Standing) -> bool) {
        let mut standing = self.standing.clone();
        let waited = timeout(AGES, standing.wait_for(wanted)).await;
        waited.expect("it comes to this").unwrap();
    }

    async fn leads(&self) {
        self.is(|standing| *standing == Standing::Leading).await;
    }

    fn reaches(&self, what: Reaches) {
        *self.way.reaches.lock() = what;
    }

    async fn ended(self) -> End {
        let ended = timeout(AGES, self.election).await;
        ended.expect("it ends").unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_and_others_know_it() {
    let store = Arc::new(Fake::default());
    let first = Server::start(&store);
    first.leads().await;
    let second = Server::start(&store);
    second
        .is(|standing| {
            standing
                .leader()
                .is_some_and(|leader| leader.name == first.name)
        })
        .await;
    sleep(AGES).await;
    assert_eq!(store.leader(), Some(first.name.clone()));
    assert_eq!(*first.standing.borrow(), Standing::Leading);
    // It leads for a while still, whenever one looks.
    assert!(first.until.lock().unwrap() > Instant::now() + TENURE / 2);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_stopped_hands_over_at_once() {
    let store = Arc::new(Fake::default());
    let (first, second) = (Server::start(&store), Server::start(&store));
    let (first, second) = tokio::select! {
        () = first.leads() => (first, second),
        () = second.leads() => (second, first),
    };
    let begun = Instant::now();
    first.stop.cancel();
    assert_eq!(first.ended().await, End::Released);
    second.leads().await;
    assert!(begun.elapsed() <= LOOK, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn one_that_dies_is_followed_when_its_lead_is_over() {
    let store = Arc::new(Fake::default());
    let first = Server::start(&store);
    first.leads().await;
    let second = Server::start(&store);
    sleep(AGES).await;
    let begun = Instant::now();
    drop(first);
    second.leads().await;
    let took = begun.elapsed();
    assert!(took > TENURE && took <= DURATION + 2 * LOOK, "{took:?}");
}

/// Neither its requests nor only their answers.
#[tokio::test(start_paused = true)]
async fn one_that_hears_nothing_ends_before_another_begins() {
    for reaches in [Reaches::Nothing, Reaches::Requests] {
        let store = Arc::new(Fake::default());
        let first = Server::start(&store);
        first.leads().await;
        let second = Server::start(&store);
        sleep(AGES).await;
        first.reaches(reaches);
        let until = first.until.lock().unwrap();
        assert_eq!(first.ended().await, End::Lost(NOT_RENEWED));
        assert_eq!(Instant::now(), until);
        assert_ne!(*second.standing.borrow(), Standing::Leading);
        second.leads().await;
        let margin = Instant::now() - until;
        assert!(margin + TENURE + LOOK >= DURATION, "{margin:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_no_loss() {
    let store = Arc::new(Fake::default());
    let first = Server::start(&store);
    first.leads().await;
    first.reaches(Reaches::Requests);
    sleep(Duration::from_secs(3)).await;
    first.reaches(Reaches::All);
    sleep(AGES).await;
    assert_eq!(*first.standing.borrow(), Standing::Leading);
}

#[tokio::test(start_paused = true)]
async fn a_lead_that_another_has_taken_is_lost() {
    let store = Arc::new(Fake::default());
    let first = Server::start(&store);
    first.leads().await;
    store.set(Some("server-1/10.0.0.2:8080/0"));
    assert_eq!(first.ended().await, End::Lost("another server leads"));
    assert_eq!(store.leader().unwrap(), "server-1/10.0.0.2:8080/0");
}

#[tokio::test(start_paused = true)]
async fn a_leader_notes_itself_again_where_the_entry_was_removed() {
    let store = Arc::new(Fake::default());
    let first = Server::start(&store);
    first.leads().await;
    let second = Server::start(&store);
    second.is(|standing| standing.leader().is_some()).await;
    store.entry.lock().1 = None;
    sleep(AGES).await;
    assert_eq!(store.leader(), Some(first.name.clone()));
    assert_ne!(*second.standing.borrow(), Standing::Leading);
}

#[tokio::test(start_paused = true)]
async fn of_many_one_leads() {
    let store = Arc::new(Fake::default());
    let servers: Vec<_> = (0..10).map(|_| Server::start(&store)).collect();
    sleep(AGES).await;
    let leading = servers
        .iter()
        .filter(|server| *server.standing.borrow() == Standing::Leading);
    assert_eq!(leading.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_a_change_counts_and_never_the_time_of_another() {
    let me = Leader::new("server-0", ([10, 0, 0, 1], 8080).into());
    let entry = |version: &str| {
        Some(LeaderEntry {
            version: version.to_owned(),
            leader: Some("server-1/10.0.0.2:8080/0".to_owned()),
        })
    };
    let (mut watched, begun) = (Watched::default(), Instant::now());
    let at = |seconds| begun + Duration::from_secs(seconds);
    assert!(!watched.is_free(&me, DURATION, begun), "nobody knows yet");
    watched.learn(entry("7"), at(0));
    watched.learn(entry("7"), at(9));
    assert!(!watched.is_free(&me, DURATION, at(9)));
    assert!(watched.is_free(&me, DURATION, at(10)));
    watched.learn(entry("3"), at(10));
    assert!(!watched.is_free(&me, DURATION, at(19)));
    let standing = watched.standing(DURATION, at(19));
    assert_eq!(
        standing.leader().map(|leader| leader.addr),
        Some(([10, 0, 0, 2], 8080).into())
    );
    assert_eq!(watched.standing(DURATION, at(20)), Standing::Unknown);
}

#[test]
fn names_tell_addresses() {
    let addr = |name: &str| Some(Leader::named(name)?.addr.to_string());
    assert_eq!(addr("a/1.2.3.4:80/ff").unwrap(), "1.2.3.4:80");
    assert_eq!(addr("a/[::1]:80/ff").unwrap(), "[::1]:80");
    for bad in ["", "a", "1.2.3.4:80/ff", "a/here:80/ff"] {
        assert_eq!(addr(bad), None, "{bad}");
    }
}
