//! The books, with numbers for kernels.

use super::*;

const IDLE: Duration = Duration::from_mins(5);
/// The share of a tenant that has no other beside it.
const ALL: usize = usize::MAX;

/// One of many places.
pub(in crate::kernels) fn key(number: usize) -> KernelKey {
    KernelKey {
        tenant: Tenant::Default,
        conversation: format!("{number:064x}").parse().unwrap(),
        language: "p".to_owned(),
        number: 0,
    }
}

fn books(max_kernels: usize) -> KernelBooks<u32> {
    KernelBooks::new(max_kernels, IDLE)
}

/// What a run that asked for its turn got.
fn granted(claim: KernelClaim<u32>) -> (Option<u32>, Option<KernelLoss>) {
    match claim {
        KernelClaim::Granted { kernel, lost } => (kernel, lost),
        other => panic!("{other:?}"),
    }
}

/// What has to make way when a run begins that got its turn where there was no kernel.
fn begun(books: &mut KernelBooks<u32>, number: usize) -> Option<u32> {
    assert_eq!(granted(books.claim(&key(number), None, ALL)).0, None);
    books.make_room(&key(number), ALL).unwrap()
}

fn leave_idle(books: &mut KernelBooks<u32>, number: usize, now: Instant) {
    assert_eq!(begun(books, number), None);
    let kernel = u32::try_from(number).unwrap();
    assert_eq!(books.give_back(&key(number), kernel, now), None);
}

#[test]
fn a_kernel_goes_from_run_to_run() {
    let (mut books, now) = (books(2), Instant::now());
    assert_eq!(begun(&mut books, 1), None);
    assert_eq!(books.claim(&key(1), None, ALL), KernelClaim::Busy);
    assert_eq!(books.count_of("p"), (0, 1));
    assert_eq!(books.give_back(&key(1), 7, now), None);
    assert_eq!((books.count_of("p"), books.count_of("q")), ((1, 0), (0, 0)));
    assert_eq!(granted(books.claim(&key(1), None, ALL)), (Some(7), None));
}

#[test]
fn what_became_of_it_is_told_once() {
    let mut books = books(2);
    granted(books.claim(&key(1), None, ALL));
    books.leave(&key(1), Some(KernelLoss::Memory));
    assert_eq!(granted(books.claim(&key(2), None, ALL)), (None, None));
    let kernel_and_loss = granted(books.claim(&key(1), None, ALL));
    assert_eq!(kernel_and_loss, (None, Some(KernelLoss::Memory)));
    // A run that did not report it puts it back.
    books.leave(&key(1), kernel_and_loss.1);
    assert_eq!(
        granted(books.claim(&key(1), None, ALL)).1,
        Some(KernelLoss::Memory)
    );
    books.leave(&key(1), None);
    books.leave(&key(2), None);
    assert!(books.seats.is_empty());
}

#[test]
fn the_least_recently_used_makes_room() {
    let (mut books, now) = (books(2), Instant::now());
    leave_idle(&mut books, 1, now);
    leave_idle(&mut books, 2, now + Duration::from_secs(1));
    assert_eq!(granted(books.claim(&key(1), None, ALL)).0, Some(1));
    assert_eq!(
        books.give_back(&key(1), 1, now + Duration::from_secs(2)),
        None
    );
    assert_eq!(begun(&mut books, 3), Some(2));
    // Those that are working stay.
    assert_eq!(begun(&mut books, 4), Some(1));
    assert_eq!(
        books.claim(&key(5), None, ALL),
        KernelClaim::Full(NoRoom::OfAll)
    );
    books.leave(&key(4), None);
    assert_eq!(
        granted(books.claim(&key(1), None, ALL)),
        (None, Some(KernelLoss::Evicted))
    );
}

#[test]
fn nothing_goes_for_a_run_that_has_not_begun() {
    let (mut books, now) = (books(1), Instant::now());
    leave_idle(&mut books, 1, now);
    for number in [2, 3] {
        assert_eq!(granted(books.claim(&key(number), None, ALL)), (None, None));
    }
    assert_eq!(books.count_of("p"), (1, 0));
    // One of them is turned away, and one comes too late.
    books.leave(&key(2), None);
    assert_eq!(begun(&mut books, 4), Some(1));
    assert_eq!(books.make_room(&key(4), ALL), Ok(None), "it has its room");
    assert_eq!(books.make_room(&key(3), ALL), Err(NoRoom::OfAll));
    assert_eq!(books.count_of("p"), (0, 1));
    // The room is free again when its run leaves without a kernel.
    books.leave(&key(4), None);
    assert_eq!(books.make_room(&key(3), ALL), Ok(None));
}

#[test]
fn those_who_wait_come_in_their_order() {
    let (mut books, now) = (books(1), Instant::now());
    granted(books.claim(&key(1), None, ALL));
    let first = books.line_up(&key(1)).unwrap();
    let second = books.line_up(&key(1)).unwrap();
    let third = books.line_up(&key(1)).unwrap();
    assert_eq!(books.claim(&key(1), Some(first), ALL), KernelClaim::Busy);
    assert_eq!(books.give_back(&key(1), 7, now), None);
    // Nobody gets in between, and a kernel that others wait for does not make way.
    assert_eq!(books.claim(&key(1), None, ALL), KernelClaim::Busy);
    assert_eq!(books.claim(&key(1), Some(second), ALL), KernelClaim::Busy);
    assert_eq!(
        books.claim(&key(2), None, ALL),
        KernelClaim::Full(NoRoom::OfAll)
    );
    books.leave_line(&key(1), second);
    assert_eq!(granted(books.claim(&key(1), Some(first), ALL)).0, Some(7));
    books.leave_line(&key(1), first);
    books.leave(&key(1), Some(KernelLoss::Timeout));
    assert_eq!(books.claim(&key(1), None, ALL), KernelClaim::Busy);
    let kernel_and_loss = granted(books.claim(&key(1), Some(third), ALL));
    assert_eq!(kernel_and_loss, (None, Some(KernelLoss::Timeout)));
    books.leave_line(&key(1), third);
    for _ in 0..MAX_WAITING {
        assert!(books.line_up(&key(1)).is_some());
    }
    assert_eq!(books.line_up(&key(1)), None);
}

#[test]
fn what_a_tenant_has_beyond_its_share_ends_when_it_is_idle() {
    let (mut books, now) = (books(9), Instant::now());
    for number in 1..=3 {
        let since = now + Duration::from_secs(number);
        leave_idle(&mut books, usize::try_from(number).unwrap(), since);
    }
    assert_eq!(begun(&mut books, 4), None);
    assert_eq!(books.trim(|_| 4), []);
    // The one that has its turn counts, and stays.
    let evicted = |kernel| (kernel, KernelLoss::Evicted);
    assert_eq!(books.trim(|_| 2), [1, 2].map(evicted));
    assert_eq!(books.trim(|_| 0), [3].map(evicted));
    assert_eq!(books.count_of("p"), (0, 1));
}

#[test]
fn kernels_end_when_unused_or_lost() {
    let (mut books, now) = (books(9), Instant::now());
    leave_idle(&mut books, 1, now);
    leave_idle(&mut books, 2, now + IDLE);
    leave_idle(&mut books, 3, now + IDLE);
    granted(books.claim(&key(4), None, ALL));
    let lost = |_: &Tenant, kernel: &u32| (*kernel == 3).then_some(KernelLoss::Replaced);
    let gone = books.expire(now + IDLE, lost);
    assert_eq!(gone, [(1, KernelLoss::Unused), (3, KernelLoss::Replaced)]);
    assert_eq!(
        granted(books.claim(&key(1), None, ALL)).1,
        Some(KernelLoss::Unused)
    );
    assert_eq!(
        books.expire(now + IDLE * 9, |_, _| None),
        [(2, KernelLoss::Unused)]
    );
}

#[test]
fn a_conversation_that_is_deleted_loses_all_of_its_kernels() {
    let (mut books, now) = (books(9), Instant::now());
    leave_idle(&mut books, 1, now);
    let busy = KernelKey {
        language: "q".to_owned(),
        ..key(1)
    };
    granted(books.claim(&busy, None, ALL));
    leave_idle(&mut books, 2, now);
    let gone = books.retire(&key(1).conversation, None, KernelLoss::Deleted);
    assert_eq!(gone, [(1, KernelLoss::Deleted)]);
    assert_eq!(
        books.give_back(&busy, 8, now),
        Some((8, KernelLoss::Deleted))
    );
    assert_eq!(
        granted(books.claim(&busy, None, ALL)).1,
        Some(KernelLoss::Deleted)
    );
    assert_eq!(granted(books.claim(&key(2), None, ALL)).0, Some(2));
}

#[test]
fn nothing_is_kept_after_the_end() {
    let (mut books, now) = (books(9), Instant::now());
    leave_idle(&mut books, 1, now);
    granted(books.claim(&key(2), None, ALL));
    assert_eq!(books.close(), [(1, KernelLoss::Gone)]);
    assert_eq!(
        books.give_back(&key(2), 2, now),
        Some((2, KernelLoss::Gone))
    );
    assert_eq!(books.claim(&key(3), None, ALL), KernelClaim::Closed);
}

#[test]
fn the_heaviest_idle_kernel_goes_and_its_next_run_is_told() {
    let (mut books, now) = (books(4), Instant::now());
    for number in 1..=3 {
        leave_idle(&mut books, number, now);
    }
    // The last one is at work.
    assert_eq!(granted(books.claim(&key(3), None, ALL)).0, Some(3));
    let weight = |kernel: &u32| (*kernel > 1).then_some(*kernel);
    let taken = books.take_heaviest(weight, KernelLoss::Floor);
    assert_eq!(taken, Some((2, KernelLoss::Floor)));
    assert_eq!(books.take_heaviest(weight, KernelLoss::Floor), None);
    assert_eq!(
        granted(books.claim(&key(2), None, ALL)),
        (None, Some(KernelLoss::Floor))
    );
    assert_eq!(granted(books.claim(&key(1), None, ALL)), (Some(1), None));
}

/// A place of another tenant.
fn of_sales(number: usize) -> KernelKey {
    KernelKey {
        tenant: Tenant::of("sales".parse().unwrap()),
        ..key(number)
    }
}

#[test]
fn a_tenant_has_its_share_and_its_own_make_way_first() {
    let (mut books, now) = (books(3), Instant::now());
    leave_idle(&mut books, 1, now);
    let mut fill = |number, max_of_tenant| {
        let claimed = books.claim(&of_sales(number), None, max_of_tenant);
        if let KernelClaim::Full(full) = claimed {
            return Err(full);
        }
        granted(claimed);
        books.make_room(&of_sales(number), max_of_tenant)
    };
    assert_eq!(fill(2, 2), Ok(None));
    assert_eq!(fill(3, 2), Ok(None));
    // Both are working: the idle one of another is none of its business.
    assert_eq!(fill(4, 2), Err(NoRoom::OfTenant));
    assert_eq!(
        fill(4, 3),
        Ok(Some(1)),
        "others' make way when all is taken"
    );
    assert!(books.give_back(&of_sales(2), 2, now).is_none());
    let key = of_sales(5);
    granted(books.claim(&key, None, 3));
    assert_eq!(books.make_room(&key, 3), Ok(Some(2)), "its own");
}
