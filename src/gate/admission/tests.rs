//! The gate with paused time, and its books with random runs.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use proptest::prelude::*;

use super::queue::Limits;
use super::*;

fn gate(concurrent: usize, per_conversation: usize, queued: usize) -> Admission {
    Admission::new(AdmissionConfig {
        concurrent,
        per_conversation,
        queued,
        wait: Duration::from_mins(10),
    })
}

fn key(number: usize) -> ConversationKey {
    format!("{number:064x}").parse().unwrap()
}

async fn acquire(gate: &Admission, number: usize) -> Result<Permit, AdmissionError> {
    gate.acquire(&key(number), |_| {}).await
}

#[tokio::test]
async fn a_full_queue_turns_away_at_once() {
    let gate = gate(1, 1, 0);
    let permit = acquire(&gate, 1).await.unwrap();
    insta::assert_snapshot!(acquire(&gate, 2).await.unwrap_err(), @"the server is busy: 1 runs and 0 waiting; try again in 2 s");
    drop(permit);
    acquire(&gate, 2).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_after_its_limit() {
    let gate = gate(1, 1, 1);
    let _permit = acquire(&gate, 1).await.unwrap();
    let waited = acquire(&gate, 2).await;
    assert!(matches!(waited, Err(AdmissionError::Busy { .. })));
    assert_eq!(gate.waiting(), 0);
}

#[tokio::test]
async fn closing_tells_those_who_wait() {
    let gate = gate(1, 1, 2);
    let permit = acquire(&gate, 1).await.unwrap();
    let (waited, ()) = tokio::join!(acquire(&gate, 2), async { gate.close() });
    assert_eq!(waited.unwrap_err(), AdmissionError::Closed);
    drop(permit);
    assert_eq!(acquire(&gate, 1).await.unwrap_err(), AdmissionError::Closed);
}

#[tokio::test(start_paused = true)]
async fn one_conversation_has_its_share_and_no_more() {
    let gate = gate(4, 2, 4);
    let _own = [
        acquire(&gate, 1).await.unwrap(),
        acquire(&gate, 1).await.unwrap(),
    ];
    let waits = join_all([acquire(&gate, 1), acquire(&gate, 1)]);
    let others = async {
        // Half of the queue is its share, although places are free.
        insta::assert_snapshot!(acquire(&gate, 1).await.unwrap_err(), @"the conversation is busy: it has 2 runs and 2 waiting; wait for their ends, or try again in 2 s");
        assert_eq!((gate.waiting(), gate.allowed_starts(2)), (2, 1));
        drop([
            acquire(&gate, 2).await.unwrap(),
            acquire(&gate, 3).await.unwrap(),
        ]);
    };
    let (refused, ()) = tokio::join!(waits, others);
    let is_its_own =
        |result: &Result<_, _>| matches!(result, Err(AdmissionError::ConversationBusy { .. }));
    assert!(refused.iter().all(is_its_own));
}

/// How long a run waits while another conversation has a hundred runs of a second each.
async fn wait_of_another(max_running: usize, per_conversation: usize) -> Duration {
    const RUN: Duration = Duration::from_secs(1);
    let gate = gate(max_running, per_conversation, 300);
    let run = || async {
        let permit = acquire(&gate, 1).await.unwrap();
        tokio::time::sleep(RUN).await;
        drop(permit);
    };
    let many = join_all((0..100).map(|_| run()));
    let another = async {
        let asked = Instant::now();
        drop(acquire(&gate, 2).await.unwrap());
        asked.elapsed()
    };
    let (_, waited) = tokio::time::timeout(RUN * 101, async { tokio::join!(many, another) })
        .await
        .unwrap();
    waited
}

#[tokio::test(start_paused = true)]
async fn a_hundred_runs_of_one_delay_another_by_one_at_most() {
    let seconds = async |max_running, per_conversation| {
        wait_of_another(max_running, per_conversation)
            .await
            .as_secs()
    };
    assert_eq!(seconds(4, 2).await, 0, "there are free places");
    assert_eq!(
        seconds(4, 4).await,
        1,
        "the first of the places that are taken"
    );
    // The run in progress, and the one whose turn had already come.
    assert_eq!(seconds(1, 1).await, 2);
}

#[tokio::test(start_paused = true)]
async fn positions_are_told_and_count_down() {
    let gate = gate(1, 1, 8);
    let held = acquire(&gate, 1).await.unwrap();
    let reported = AtomicUsize::new(0);
    let other = async {
        let first = acquire(&gate, 2).await.unwrap();
        tokio::time::sleep(TOLD_EVERY * 3).await;
        drop(first);
    };
    let third = key(3);
    let last = async {
        let permit = gate.acquire(&third, |position| {
            reported.store(position, Ordering::Relaxed);
        });
        drop(permit.await.unwrap());
    };
    let look = async {
        tokio::task::yield_now().await;
        let before = reported.load(Ordering::Relaxed);
        drop(held);
        tokio::time::sleep(TOLD_EVERY * 2).await;
        (before, reported.load(Ordering::Relaxed))
    };
    let ((), (), positions) = tokio::join!(other, last, look);
    assert_eq!(positions, (2, 1));
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_takes_no_place_along() {
    let gate = gate(1, 1, 8);
    let held = acquire(&gate, 1).await.unwrap();
    let mut gone = Box::pin(acquire(&gate, 2));
    assert!(futures::poll!(&mut gone).is_pending());
    // Its turn has come, but it never takes it.
    drop(held);
    drop(gone);
    assert_eq!(gate.waiting(), 0);
    acquire(&gate, 3).await.unwrap();
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(usize),
    GiveUp(usize),
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_usize).prop_map(Step::Ask),
        1 => any::<usize>().prop_map(Step::GiveUp),
        3 => any::<usize>().prop_map(Step::End),
    ]
}

/// A run that waits: whose it is, and who was served while it was the first of its conversation.
struct Waits {
    who: usize,
    ticket: QueueTicket,
    seen: Vec<usize>,
}

fn count(of: &[usize], which: usize) -> usize {
    of.iter().filter(|one| **one == which).count()
}

proptest! {
    #[test]
    fn turns_are_fair_and_limits_hold(
        steps in prop::collection::vec(step(), 0..200),
        max_running in 1..4_usize,
        max_running_of_one in 1..4_usize,
    ) {
        let limits = Limits { max_running, max_running_of_one, queued: 20, queued_of_one: 10 };
        let mut queue: Queue<()> = Queue::new(limits);
        let (mut running, mut waiting): (Vec<usize>, Vec<Waits>) = Default::default();
        for step in steps {
            match step {
                Step::Ask(who) => match queue.try_enter(&key(who)) {
                    Ok(true) => running.push(who),
                    Ok(false) => {
                        let ticket = queue.join(&key(who), ());
                        waiting.push(Waits { who, ticket, seen: Vec::new() });
                    }
                    Err(_) => {}
                },
                Step::GiveUp(which) if !waiting.is_empty() => {
                    let gone = waiting.remove(which % waiting.len());
                    queue.give_up(&key(gone.who), gone.ticket);
                }
                Step::End(which) if !running.is_empty() => {
                    queue.leave(&key(running.swap_remove(which % running.len())));
                }
                Step::GiveUp(_) | Step::End(_) => {}
            }
            while let Some((served, ())) = queue.serve() {
                let who = (0..4).find(|who| key(*who) == served).unwrap();
                let index = waiting.iter().position(|waits| waits.who == who).unwrap();
                waiting.remove(index);
                running.push(who);
                for other in (0..4).filter(|other| *other != who && count(&running, *other) < max_running_of_one) {
                    if let Some(first) = waiting.iter_mut().find(|waits| waits.who == other) {
                        first.seen.push(who);
                        prop_assert!(count(&first.seen, who) <= 1, "{:?} of {other}", first.seen);
                    }
                }
            }
            prop_assert!(running.len() <= max_running);
            prop_assert!((0..4).all(|who| count(&running, who) <= max_running_of_one));
            prop_assert_eq!(queue.waiting(), waiting.len());
            for waits in &waiting {
                let position = queue.position(&key(waits.who), waits.ticket);
                prop_assert!(position.is_some_and(|position| position <= waiting.len()));
            }
        }
    }
}
