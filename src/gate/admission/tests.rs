//! The gate with paused time.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use tempfile::TempDir;
use tokio::time::sleep;

use super::*;

fn gate(concurrent: usize, per_conversation: usize, queued: usize) -> Admission {
    let config = AdmissionConfig {
        concurrent,
        per_conversation,
        queued,
        wait: Duration::from_mins(10),
    };
    Admission::new(config, Access::open(None, None).unwrap())
}

/// One of a server that tenants share, with what their file says.
fn shared_gate(concurrent: usize, queued: usize, tenants: &str) -> (Admission, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.toml");
    std::fs::write(&path, tenants).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let config = AdmissionConfig {
        concurrent,
        per_conversation: concurrent,
        queued,
        wait: Duration::from_mins(10),
    };
    let access = Access::open(None, Some(path)).unwrap();
    (Admission::new(config, access), dir)
}

fn conversation(tenant: &str, number: usize) -> Conversation {
    let tenant = Tenant::of(tenant.parse().unwrap());
    let id = number.to_string().parse().unwrap();
    Conversation::new(tenant, id, &"secret".into())
}

async fn acquire(gate: &Admission, number: usize) -> Result<Permit, AdmissionError> {
    acquire_of(gate, "default", number).await
}

async fn acquire_of(
    gate: &Admission,
    tenant: &str,
    number: usize,
) -> Result<Permit, AdmissionError> {
    gate.acquire(&conversation(tenant, number), Start::Ready, |_| {})
        .await
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
    let third = conversation("default", 3);
    let last = async {
        let permit = gate.acquire(&third, Start::Ready, |position| {
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

/// A run of conversation `number` that starts slowly.
async fn acquire_slow(gate: &Admission, number: usize) -> Result<Permit, AdmissionError> {
    gate.acquire(&conversation("default", number), Start::Slow, |_| {})
        .await
}

#[tokio::test(start_paused = true)]
async fn runs_that_start_slowly_leave_half_of_the_permits_to_others() {
    let gate = gate(4, 4, 8);
    let mut slow = [
        acquire_slow(&gate, 1).await.unwrap(),
        acquire_slow(&gate, 2).await.unwrap(),
    ];
    let mut third = Box::pin(acquire_slow(&gate, 3));
    assert!(futures::poll!(&mut third).is_pending());
    let _ready = acquire(&gate, 4).await.unwrap();
    // What it does not need any more is another's.
    drop(slow[0].take_slow_start());
    let third = third.await.unwrap();
    let mut fourth = Box::pin(acquire_slow(&gate, 5));
    assert!(futures::poll!(&mut fourth).is_pending());
    // With the permit goes the right.
    drop(third);
    fourth.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_start_is_over_when_its_work_is_or_takes_too_long() {
    let gate = gate(2, 2, 8);
    let mut first = acquire_slow(&gate, 1).await.unwrap();
    let begun = Instant::now();
    let computes = SlowStart::during(first.take_slow_start(), Box::pin(sleep(SLOW_FOR * 3)));
    let second = async {
        let mut second = acquire_slow(&gate, 2).await.unwrap();
        assert_eq!(begun.elapsed(), SLOW_FOR);
        second.take_slow_start()
    };
    let (((), over), slow) = tokio::join!(computes, second);
    assert_eq!((begun.elapsed(), over.is_none()), (SLOW_FOR * 3, true));
    drop(first);
    // The second one has had its time too, and ends at once.
    let ((), over) = SlowStart::during(slow, Box::pin(tokio::task::yield_now())).await;
    assert!(over.is_none());
    let mut third = acquire_slow(&gate, 3).await.unwrap();
    let ((), goes_on) =
        SlowStart::during(third.take_slow_start(), Box::pin(sleep(SLOW_FOR / 2))).await;
    assert!(goes_on.is_some());
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_lets_the_next_of_its_conversation_in_at_once() {
    let gate = gate(2, 2, 8);
    let _slow = acquire_slow(&gate, 1).await.unwrap();
    let mut earlier = Box::pin(acquire_slow(&gate, 2));
    let mut later = Box::pin(acquire(&gate, 2));
    assert!(futures::poll!(&mut earlier).is_pending());
    assert!(futures::poll!(&mut later).is_pending());
    assert_eq!(gate.allowed_starts(2), 0, "the cores are busy");
    drop(earlier);
    assert!(futures::poll!(&mut later).is_ready());
    assert_eq!(gate.allowed_starts(2), 1);
}

#[tokio::test(start_paused = true)]
async fn no_run_overtakes_one_of_its_conversation_that_starts_slowly() {
    let gate = gate(2, 2, 8);
    let slow = acquire_slow(&gate, 1).await.unwrap();
    let mut earlier = Box::pin(acquire_slow(&gate, 2));
    assert!(futures::poll!(&mut earlier).is_pending());
    let mut later = Box::pin(acquire(&gate, 2));
    assert!(futures::poll!(&mut later).is_pending());
    drop(acquire(&gate, 3).await.unwrap());
    assert!(futures::poll!(&mut later).is_pending());
    drop(slow);
    drop(earlier.await.unwrap());
    later.await.unwrap();
}

/// How long a run of another tenant waits while one has 200 runs of a second each, in as many conversations.
async fn wait_of_another_tenant(tenants: &str, many: &str, other: &str) -> u64 {
    const RUN: Duration = Duration::from_secs(1);
    let (gate, _dir) = shared_gate(2, 1000, tenants);
    let run = |number| {
        let gate = gate.clone();
        async move {
            let permit = acquire_of(&gate, many, number).await.unwrap();
            tokio::time::sleep(RUN).await;
            drop(permit);
        }
    };
    let all = join_all((0..200).map(run));
    let another = async {
        let asked = Instant::now();
        drop(acquire_of(&gate, other, 0).await.unwrap());
        asked.elapsed().as_secs()
    };
    let (_, waited) = tokio::join!(all, another);
    waited
}

#[tokio::test(start_paused = true)]
async fn two_hundred_runs_of_a_tenant_delay_another_by_one_at_most() {
    let half = wait_of_another_tenant("", "sales", "research").await;
    assert_eq!(half, 0, "half of the permits is for others");
    let of_the_operator = wait_of_another_tenant("", "default", "research").await;
    assert_eq!(of_the_operator, 0);
    let all = "[[tenant]]\nname = \"sales\"\nmax_runs = 2";
    assert_eq!(wait_of_another_tenant(all, "sales", "research").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_has_its_share_and_no_more() {
    let tenants = "[[tenant]]\nname = \"sales\"\nmax_runs = 1";
    let (gate, _dir) = shared_gate(4, 4, tenants);
    let _own = acquire_of(&gate, "sales", 1).await.unwrap();
    let waits = join_all((2..4).map(|number| acquire_of(&gate, "sales", number)));
    let others = async {
        // Half of the queue is its share, although permits are free.
        insta::assert_snapshot!(acquire_of(&gate, "sales", 4).await.unwrap_err(), @"the tenant is busy: it has 1 runs and 2 waiting; wait for their ends, or try again in 2 s");
        for number in 0..2 {
            drop(acquire_of(&gate, "research", number).await.unwrap());
        }
    };
    let (refused, ()) = tokio::join!(waits, others);
    let is_its_own =
        |result: &Result<_, _>| matches!(result, Err(AdmissionError::TenantBusy { .. }));
    assert!(refused.iter().all(is_its_own));
}

#[tokio::test(start_paused = true)]
async fn two_tenants_that_fill_the_queue_leave_a_place_to_a_third() {
    let (gate, _dir) = shared_gate(2, 2, "");
    let _running = [
        acquire_of(&gate, "sales", 1).await.unwrap(),
        acquire_of(&gate, "default", 1).await.unwrap(),
    ];
    let mut waiting: Vec<_> = ["sales", "default", "research"]
        .map(|tenant| Box::pin(acquire_of(&gate, tenant, 2)))
        .into();
    for waits in &mut waiting {
        assert!(futures::poll!(waits).is_pending());
    }
    assert_eq!(gate.waiting(), 3);
    // It has one place more, and no second one.
    assert!(acquire_of(&gate, "research", 3).await.is_err());
}

#[tokio::test]
async fn a_check_of_the_servers_own_takes_turns_with_tenants() {
    let (gate, _dir) = shared_gate(1, 4, "[[tenant]]\nname = \"default\"\nmax_runs = 1");
    let running = acquire(&gate, 0).await.unwrap();
    let mut waiting: Vec<_> = (1..3)
        .map(|number| Box::pin(acquire(&gate, number)))
        .collect();
    for wait in &mut waiting {
        assert!(futures::poll!(wait.as_mut()).is_pending());
    }
    assert!(matches!(
        acquire(&gate, 3).await,
        Err(AdmissionError::TenantBusy { .. })
    ));
    // It is nobody's run, though its conversation looks like one of the first tenant.
    let own = conversation("default", 9);
    let mut check = Box::pin(gate.acquire_for_check(&own, |_| {}));
    assert!(futures::poll!(check.as_mut()).is_pending());
    drop(running);
    let first = waiting.remove(0).await.unwrap();
    drop(first);
    drop(check.await.unwrap());
    drop(waiting.remove(0).await.unwrap());
}
