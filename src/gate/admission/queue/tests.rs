//! The books with random runs.

use proptest::prelude::*;

use super::*;
use crate::principal::Tenant;

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(usize, Start),
    /// One that started slowly has what it needs.
    Load(usize),
    GiveUp(usize),
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_usize, any::<bool>()).prop_map(|(who, is_slow)| {
            Step::Ask(who, if is_slow { Start::Slow } else { Start::Ready })
        }),
        1 => any::<usize>().prop_map(Step::Load),
        1 => any::<usize>().prop_map(Step::GiveUp),
        3 => any::<usize>().prop_map(Step::End),
    ]
}

/// One of four conversations, of which a tenant has two each.
fn claimant(who: usize, start: Start) -> Claimant {
    let name = ["research", "sales"][who / 2];
    Claimant {
        party: Party::Tenant(Tenant::of(name.parse().unwrap())),
        key: format!("{who:064x}").parse().unwrap(),
        start,
    }
}

/// A run that waits: whose it is, and who was served while it was the first of its conversation, and of its tenant.
struct Waits {
    who: usize,
    start: Start,
    ticket: QueueTicket,
    seen: Vec<usize>,
    seen_of_others: usize,
}

fn count(of: &[usize], counts: impl Fn(usize) -> bool) -> usize {
    of.iter().filter(|one| counts(**one)).count()
}

proptest! {
    #[test]
    fn turns_are_fair_and_limits_hold(
        steps in prop::collection::vec(step(), 0..200),
        max_running in 1..4_usize,
        max_running_of_one in 1..4_usize,
        max_running_of_tenant in 1..4_usize,
        max_slow in 1..3_usize,
    ) {
        let limits = Limits {
            all: Share { running: max_running, queued: 20 },
            of_one: Share { running: max_running_of_one, queued: 10 },
            slow: max_slow,
        };
        let share = Share { running: max_running_of_tenant, queued: 15 };
        let mut queue: Queue<()> = Queue::new(limits);
        let (mut running, mut waiting): (Vec<usize>, Vec<Waits>) = Default::default();
        // Those whose slow start goes on.
        let mut slow: Vec<usize> = Vec::new();
        for step in steps {
            match step {
                Step::Ask(who, start) => match queue.try_enter(&claimant(who, start), share) {
                    Ok(true) => {
                        prop_assert!(waiting.iter().all(|waits| waits.who != who), "{who} overtakes itself");
                        running.push(who);
                        slow.extend((start == Start::Slow).then_some(who));
                    }
                    Ok(false) => {
                        let ticket = queue.join(&claimant(who, start), share, ());
                        waiting.push(Waits { who, start, ticket, seen: Vec::new(), seen_of_others: 0 });
                    }
                    Err(_) => {}
                },
                Step::Load(which) if !slow.is_empty() => {
                    slow.swap_remove(which % slow.len());
                    queue.end_slow_start();
                }
                Step::GiveUp(which) if !waiting.is_empty() => {
                    let gone = waiting.remove(which % waiting.len());
                    queue.give_up(&claimant(gone.who, gone.start), gone.ticket);
                }
                Step::End(which) if !running.is_empty() => {
                    let who = running.swap_remove(which % running.len());
                    queue.leave(&claimant(who, Start::Ready));
                    // No more of its runs can start slowly than there are.
                    if count(&slow, |one| one == who) > count(&running, |one| one == who) {
                        slow.remove(slow.iter().position(|one| *one == who).unwrap());
                        queue.end_slow_start();
                    }
                }
                Step::Load(_) | Step::GiveUp(_) | Step::End(_) => {}
            }
            while let Some((served, ())) = queue.serve() {
                let start = served.start;
                let who = (0..4).find(|who| claimant(*who, start) == served).unwrap();
                let index = waiting.iter().position(|waits| waits.who == who).unwrap();
                prop_assert_eq!(waiting.remove(index).start, start);
                running.push(who);
                slow.extend((start == Start::Slow).then_some(who));
                let may_start = |start| start == Start::Ready || slow.len() < max_slow;
                let may_run = |other: usize| {
                    count(&running, |one| one == other) < max_running_of_one
                        && count(&running, |one| one / 2 == other / 2) < max_running_of_tenant
                };
                // Within a tenant, conversations take turns.
                for other in (0..4).filter(|other| *other != who && other / 2 == who / 2 && may_run(*other)) {
                    let first = waiting.iter_mut().find(|waits| waits.who == other);
                    if let Some(first) = first.filter(|first| may_start(first.start)) {
                        first.seen.push(who);
                        prop_assert!(count(&first.seen, |one| one == who) <= 1, "{:?} of {other}", first.seen);
                    }
                }
                // And so do tenants: while one waits that may run, another is served once.
                for waits in waiting.iter_mut().filter(|waits| waits.who / 2 == who / 2) {
                    waits.seen_of_others = 0;
                }
                // Of each conversation, only the first may be next.
                let mut is_first = [true; 4];
                let of_another = |waits: &&mut Waits| {
                    let is_first = std::mem::take(&mut is_first[waits.who]);
                    is_first && waits.who / 2 != who / 2 && may_run(waits.who) && may_start(waits.start)
                };
                if let Some(first) = waiting.iter_mut().find(of_another) {
                    first.seen_of_others += 1;
                    prop_assert!(first.seen_of_others <= 1, "{} waits", first.who);
                }
            }
            prop_assert!(running.len() <= max_running);
            prop_assert!(slow.len() <= max_slow);
            prop_assert!((0..4).all(|who| count(&running, |one| one == who) <= max_running_of_one));
            prop_assert!((0..2).all(|of| count(&running, |one| one / 2 == of) <= max_running_of_tenant));
            prop_assert_eq!(queue.waiting(), waiting.len());
            for waits in &waiting {
                let position = queue.position(&claimant(waits.who, waits.start), waits.ticket);
                prop_assert!(position.is_some_and(|position| position <= waiting.len()));
            }
        }
    }
}

#[test]
fn a_share_that_grows_reaches_those_who_wait() {
    let all = Share {
        running: 4,
        queued: 4,
    };
    let mut queue: Queue<()> = Queue::new(Limits {
        all,
        of_one: all,
        slow: 4,
    });
    let share = |running| Share { running, queued: 2 };
    let (one, two) = (claimant(0, Start::Ready), claimant(1, Start::Ready));
    assert_eq!(queue.try_enter(&one, share(1)), Ok(true));
    assert_eq!(queue.try_enter(&two, share(1)), Ok(false));
    queue.join(&two, share(1), ());
    assert!(queue.serve().is_none());
    queue.set_share(&two.party, share(2));
    assert_eq!(queue.serve(), Some((two, ())));
}
