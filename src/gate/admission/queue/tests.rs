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

/// The books beside what they should say.
struct Model {
    queue: Queue<()>,
    limits: Limits,
    of_tenant: Share,
    running: Vec<usize>,
    /// Those whose slow start goes on.
    slow: Vec<usize>,
    waiting: Vec<Waits>,
}

type Checked = Result<(), TestCaseError>;

impl Model {
    fn new(limits: Limits, of_tenant: Share) -> Self {
        Self {
            queue: Queue::new(limits),
            limits,
            of_tenant,
            running: Vec::new(),
            slow: Vec::new(),
            waiting: Vec::new(),
        }
    }

    fn take(&mut self, step: Step) -> Checked {
        match step {
            Step::Ask(who, start) => self.ask(who, start)?,
            Step::Load(which) if !self.slow.is_empty() => {
                self.slow.swap_remove(which % self.slow.len());
                self.queue.end_slow_start();
            }
            Step::GiveUp(which) if !self.waiting.is_empty() => {
                let gone = self.waiting.remove(which % self.waiting.len());
                self.queue
                    .give_up(&claimant(gone.who, gone.start), gone.ticket);
            }
            Step::End(which) if !self.running.is_empty() => self.end(which),
            Step::Load(_) | Step::GiveUp(_) | Step::End(_) => {}
        }
        while let Some((served, ())) = self.queue.serve() {
            self.see_served(&served)?;
        }
        self.check()
    }

    fn ask(&mut self, who: usize, start: Start) -> Checked {
        let of = claimant(who, start);
        match self.queue.try_enter(&of, self.of_tenant) {
            Ok(true) => {
                let overtakes = self.waiting.iter().any(|waits| waits.who == who);
                prop_assert!(!overtakes, "{who} overtakes itself");
                self.begin(who, start);
            }
            Ok(false) => self.waiting.push(Waits {
                who,
                start,
                ticket: self.queue.join(&of, self.of_tenant, ()),
                seen: Vec::new(),
                seen_of_others: 0,
            }),
            Err(_) => {}
        }
        Ok(())
    }

    fn begin(&mut self, who: usize, start: Start) {
        self.running.push(who);
        self.slow.extend((start == Start::Slow).then_some(who));
    }

    fn end(&mut self, which: usize) {
        let who = self.running.swap_remove(which % self.running.len());
        self.queue.leave(&claimant(who, Start::Ready));
        let of_it = |of: &[usize]| count(of, |one| one == who);
        // No more of its runs can start slowly than there are.
        if of_it(&self.slow) > of_it(&self.running) {
            let index = self.slow.iter().position(|one| *one == who).unwrap();
            self.slow.remove(index);
            self.queue.end_slow_start();
        }
    }

    /// Whether this one of those that wait could be served: the first of its conversation.
    fn may_begin(&self, index: usize) -> bool {
        let Waits { who, start, .. } = self.waiting[index];
        let running = |counts: &dyn Fn(usize) -> bool| count(&self.running, counts);
        self.waiting[..index].iter().all(|waits| waits.who != who)
            && running(&|one| one == who) < self.limits.of_one.running
            && running(&|one| one / 2 == who / 2) < self.of_tenant.running
            && (start == Start::Ready || self.slow.len() < self.limits.slow)
    }

    fn see_served(&mut self, served: &Claimant) -> Checked {
        let is_it = |who: &usize| claimant(*who, served.start) == *served;
        let who = (0..4).find(is_it).unwrap();
        let index = self.waiting.iter().position(|waits| waits.who == who);
        let waited = self.waiting.remove(index.unwrap());
        prop_assert_eq!(waited.start, served.start);
        self.begin(who, served.start);
        let next = (0..self.waiting.len()).filter(|index| self.may_begin(*index));
        let next: Vec<_> = next.collect();
        let (own, others): (Vec<_>, Vec<_>) = next
            .into_iter()
            .partition(|index| self.waiting[*index].who / 2 == who / 2);
        // Within a tenant, conversations take turns.
        for index in own {
            let first = &mut self.waiting[index];
            if first.who != who {
                first.seen.push(who);
                let times = count(&first.seen, |one| one == who);
                prop_assert!(times <= 1, "{:?} of {}", first.seen, first.who);
            }
        }
        // And so do tenants: while one waits that may run, another is served once.
        let of_its_tenant = |waits: &&mut Waits| waits.who / 2 == who / 2;
        for waits in self.waiting.iter_mut().filter(of_its_tenant) {
            waits.seen_of_others = 0;
        }
        if let Some(index) = others.first() {
            let first = &mut self.waiting[*index];
            first.seen_of_others += 1;
            prop_assert!(first.seen_of_others <= 1, "{} waits", first.who);
        }
        Ok(())
    }

    fn check(&self) -> Checked {
        let Limits { all, of_one, slow } = self.limits;
        prop_assert!(self.running.len() <= all.running);
        prop_assert!(self.slow.len() <= slow);
        for who in 0..4 {
            prop_assert!(count(&self.running, |one| one == who) <= of_one.running);
            let of_tenant = count(&self.running, |one| one / 2 == who / 2);
            prop_assert!(of_tenant <= self.of_tenant.running);
        }
        prop_assert_eq!(self.queue.waiting(), self.waiting.len());
        for waits in &self.waiting {
            let of = claimant(waits.who, waits.start);
            let position = self.queue.position(&of, waits.ticket);
            prop_assert!(position.is_some_and(|position| position <= self.waiting.len()));
        }
        Ok(())
    }
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
        let of_tenant = Share { running: max_running_of_tenant, queued: 15 };
        let mut model = Model::new(limits, of_tenant);
        for step in steps {
            model.take(step)?;
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
