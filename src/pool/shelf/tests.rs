//! The books, with numbers for sandboxes.

use super::*;

const TTL: Duration = Duration::from_mins(5);

fn kind(name: &str) -> Kind {
    Kind(name.to_owned())
}

fn light(name: &str) -> Ahead {
    (kind(name), Load::Light)
}

fn full(name: &str) -> Ahead {
    (kind(name), Load::Full)
}

fn sizes(light: usize, full: usize) -> PoolSizes {
    PoolSizes {
        light,
        max_light: light,
        full,
        max_full: full,
    }
}

/// `size` of each.
fn kinds(names: &[&str], size: usize) -> BTreeMap<Kind, PoolSizes> {
    let each = names.iter().map(|name| (kind(name), sizes(size, 0)));
    each.collect()
}

fn key(digit: char) -> ConversationKey {
    digit.to_string().repeat(64).parse().unwrap()
}

/// A shelf of one kind, `p`.
fn shelf(pool_size: usize, max_warm: usize) -> Shelf<u32> {
    let mut shelf = Shelf::new(max_warm, TTL);
    assert!(
        shelf
            .set_kinds(&kinds(&["p"], pool_size), Instant::now())
            .is_empty()
    );
    shelf
}

#[test]
fn each_kind_is_filled_to_its_size_the_emptiest_first() {
    let (mut shelf, now) = (Shelf::<u32>::new(10, TTL), Instant::now());
    let _ = shelf.set_kinds(&kinds(&["p", "t"], 2), Instant::now());
    let order: Vec<_> = std::iter::from_fn(|| shelf.begin_start(now)).collect();
    assert_eq!(order, [light("p"), light("t"), light("p"), light("t")]);
    assert_eq!(shelf.starting(), 4);
}

#[test]
fn each_kind_has_a_size_of_its_own() {
    let (mut shelf, now) = (Shelf::<u32>::new(10, TTL), Instant::now());
    let kinds = BTreeMap::from([(kind("p"), sizes(2, 0)), (kind("t"), sizes(0, 0))]);
    let _ = shelf.set_kinds(&kinds, Instant::now());
    let order: Vec<_> = std::iter::from_fn(|| shelf.begin_start(now)).collect();
    assert_eq!(order, [light("p"), light("p")]);
    // A conversation may keep one all the same.
    assert!(shelf.give_back(&key('a'), &kind("t"), 7, now).is_empty());
    assert_eq!(
        shelf.claim_own(&key('a'), &kind("t")),
        ShelfClaim::Granted(7)
    );
}

#[test]
fn light_ones_come_first_and_full_ones_when_nothing_else_starts() {
    let (mut shelf, now) = (Shelf::new(10, TTL), Instant::now());
    let kinds = BTreeMap::from([(kind("p"), sizes(2, 1)), (kind("t"), sizes(1, 0))]);
    let _ = shelf.set_kinds(&kinds, Instant::now());
    let order: Vec<_> = std::iter::from_fn(|| shelf.begin_start(now)).collect();
    assert_eq!(order, [light("p"), light("t"), light("p")]);
    for (number, ahead) in order.iter().enumerate() {
        assert_eq!(shelf.begin_start(now), None);
        assert_eq!(shelf.started(ahead, number, now), None);
    }
    assert_eq!(shelf.begin_start(now), Some(full("p")));
    assert_eq!(shelf.started(&full("p"), 3, now), None);
    assert_eq!(shelf.begin_start(now), None);
}

#[test]
fn programs_get_what_they_want_or_what_there_is() {
    let (mut shelf, now) = (Shelf::new(10, TTL), Instant::now());
    let _ = shelf.set_kinds(&BTreeMap::from([(kind("p"), sizes(2, 2))]), Instant::now());
    for (number, ahead) in [light("p"), full("p"), light("p"), full("p")]
        .iter()
        .enumerate()
    {
        assert_eq!(shelf.put_back(ahead, number, now), None);
    }
    let mut claim = |load| shelf.claim_pooled(&kind("p"), load, now);
    assert_eq!(claim(Load::Full), Some(1));
    assert_eq!(claim(Load::Light), Some(0));
    assert_eq!(claim(Load::Full), Some(3));
    assert_eq!(claim(Load::Full), Some(2));
    assert_eq!(claim(Load::Light), None);
}

#[test]
fn light_ones_follow_the_arrivals() {
    let (mut shelf, now) = (Shelf::<u32>::new(100, TTL), Instant::now());
    let sizes = PoolSizes {
        light: 2,
        max_light: 7,
        full: 0,
        max_full: 0,
    };
    let kinds = BTreeMap::from([(kind("p"), sizes)]);
    let _ = shelf.set_kinds(&kinds, now);
    let mut fill = |claims, now| {
        for _ in 0..claims {
            shelf.claim_pooled(&kind("p"), Load::Light, now);
        }
        while let Some(ahead) = shelf.begin_start(now) {
            assert_eq!(shelf.started(&ahead, 0, now), None);
        }
        let surplus = shelf.set_kinds(&kinds, now).len();
        (shelf.count().0, surplus)
    };
    assert_eq!(fill(0, now), (2, 0));
    assert_eq!(fill(3, now), (6, 0));
    assert_eq!(fill(9, now), (7, 0));
    assert_eq!(fill(0, now + Duration::from_mins(11)), (2, 5));
}

#[test]
fn full_ones_follow_the_arrivals_that_want_them() {
    let (mut shelf, now) = (Shelf::<u32>::new(100, TTL), Instant::now());
    let sizes = PoolSizes {
        light: 0,
        max_light: 0,
        full: 2,
        max_full: 5,
    };
    let kinds = BTreeMap::from([(kind("p"), sizes)]);
    let _ = shelf.set_kinds(&kinds, now);
    let mut fill = |claims: &[Load], now| {
        for load in claims {
            shelf.claim_pooled(&kind("p"), *load, now);
        }
        while let Some(ahead) = shelf.begin_start(now) {
            assert_eq!(ahead, full("p"));
            assert_eq!(shelf.started(&ahead, 0, now), None);
        }
        shelf.count().0
    };
    assert_eq!(fill(&[Load::Light; 9], now), 2);
    assert_eq!(fill(&[Load::Light, Load::Full, Load::Full], now), 4);
    assert_eq!(fill(&[Load::Full; 9], now), 5);
}

#[test]
fn what_is_more_than_is_wanted_any_more_is_retired() {
    let (mut shelf, now) = (shelf(3, 10), Instant::now());
    for number in 0..3 {
        let kind = shelf.begin_start(now).unwrap();
        assert_eq!(shelf.started(&kind, number, now), None);
    }
    assert_eq!(shelf.set_kinds(&kinds(&["p"], 2), Instant::now()), [2]);
    assert_eq!(shelf.set_kinds(&kinds(&["p"], 0), Instant::now()), [0, 1]);
    assert_eq!(shelf.begin_start(now), None);
}

#[test]
fn the_most_in_all_is_never_exceeded() {
    let (mut shelf, now) = (shelf(5, 3), Instant::now());
    for number in 0..3 {
        let kind = shelf.begin_start(now).unwrap();
        assert_eq!(shelf.started(&kind, number, now), None);
    }
    assert_eq!(shelf.begin_start(now), None);
    assert_eq!(shelf.claim_pooled(&kind("p"), Load::Light, now), Some(0));
    assert!(shelf.give_back(&key('a'), &kind("p"), 0, now).is_empty());
    assert_eq!(shelf.begin_start(now), None);
    assert_eq!(shelf.give_back(&key('b'), &kind("p"), 8, now), [2]);
    assert_eq!(shelf.give_back(&key('c'), &kind("p"), 9, now), [0]);
    assert_eq!(shelf.count(), (1, 2));
}

#[test]
fn what_comes_back_finds_its_place() {
    let (mut shelf, now) = (shelf(2, 2), Instant::now());
    for number in 0..2 {
        let kind = shelf.begin_start(now).unwrap();
        assert_eq!(shelf.started(&kind, number, now), None);
    }
    assert_eq!(shelf.claim_pooled(&kind("p"), Load::Light, now), Some(0));
    let reserved = shelf.lend();
    assert_eq!(shelf.begin_start(now), None, "it will come back");
    drop(reserved);
    assert!(shelf.give_back(&key('a'), &kind("p"), 0, now).is_empty());
    assert_eq!(shelf.count(), (1, 1));
    // One that does not come back gives up its place.
    assert_eq!(
        shelf.claim_own(&key('a'), &kind("p")),
        ShelfClaim::Granted(0)
    );
    drop(shelf.lend());
    assert_eq!(shelf.begin_start(now), Some(light("p")));
}

#[test]
fn the_pool_shares_its_half() {
    let (mut shelf, now) = (shelf(5, 4), Instant::now());
    for number in 0..4 {
        let kind = shelf.begin_start(now).unwrap();
        assert_eq!(shelf.started(&kind, number, now), None);
    }
    // Those that were started cold come in addition.
    assert_eq!(shelf.give_back(&key('a'), &kind("p"), 7, now), [3]);
    assert_eq!(shelf.give_back(&key('b'), &kind("p"), 8, now), [2]);
    assert_eq!(shelf.give_back(&key('c'), &kind("p"), 9, now), [7]);
    assert_eq!(shelf.count(), (2, 2));
}

#[test]
fn old_conversations_make_room_for_the_pool() {
    let (mut shelf, now) = (shelf(2, 4), Instant::now());
    for (digit, number) in [('a', 1), ('b', 2), ('c', 3), ('d', 4)] {
        assert!(
            shelf
                .give_back(&key(digit), &kind("p"), number, now)
                .is_empty()
        );
    }
    assert_eq!(shelf.begin_start(now), None);
    for evicted in [1, 2] {
        assert_eq!(shelf.make_room(now), Some(evicted));
        assert_eq!(shelf.begin_start(now), Some(light("p")));
    }
    assert_eq!(shelf.make_room(now), None, "the pool is full");
    assert_eq!(shelf.count(), (0, 2));
}

#[test]
fn a_failed_start_is_tried_again_after_a_pause() {
    let (mut shelf, now) = (shelf(1, 3), Instant::now());
    let kind = shelf.begin_start(now).unwrap();
    shelf.start_failed(&kind, now);
    assert_eq!(shelf.begin_start(now), None);
    let later = now + PAUSE_AFTER_FAILURE;
    assert_eq!(shelf.begin_start(later), Some(kind.clone()));
}

#[test]
fn what_fails_again_and_again_is_tried_ever_more_rarely() {
    let (mut shelf, mut now) = (shelf(1, 3), Instant::now());
    let mut pauses = Vec::new();
    for _ in 0..40 {
        let kind = shelf.begin_start(now).unwrap();
        shelf.start_failed(&kind, now);
        let failed = now;
        now = (1..999)
            .map(|s| failed + Duration::from_secs(s))
            .find(|&at| shelf.begin_start(at).is_some())
            .unwrap();
        pauses.push((now - failed).as_secs());
        shelf.end_start(&kind);
    }
    assert_eq!(pauses[..6], [5, 10, 20, 40, 80, 120]);
    assert_eq!(pauses[39], 120);
    // After a success, it is as if none had ever failed.
    let kind = shelf.begin_start(now).unwrap();
    assert_eq!(shelf.started(&kind, 1, now), None);
    shelf.claim_pooled(&kind.0, Load::Light, now).unwrap();
    let kind = shelf.begin_start(now).unwrap();
    shelf.start_failed(&kind, now);
    assert_eq!(shelf.begin_start(now + PAUSE_AFTER_FAILURE), Some(kind));
}

#[test]
fn a_conversation_gets_its_own_back_and_nobody_elses() {
    let (mut shelf, now) = (shelf(0, 9), Instant::now());
    let scrubbed = shelf
        .begin_cleaning(&key('a'), &kind("p"), ReadyAfter::Scrub)
        .unwrap();
    assert_eq!(shelf.claim_own(&key('a'), &kind("p")), ShelfClaim::Cleaning);
    assert_eq!(shelf.claim_own(&key('b'), &kind("p")), ShelfClaim::Nothing);
    assert!(shelf.end_cleaning(scrubbed));
    // A small interpreter is worth waiting for, and only one of those is loaded at a time.
    let small = shelf
        .begin_cleaning(&key('a'), &kind("p"), ReadyAfter::LightPark)
        .unwrap();
    assert_eq!(
        shelf.begin_cleaning(&key('a'), &kind("p"), ReadyAfter::LightPark),
        None
    );
    assert_eq!(shelf.claim_own(&key('a'), &kind("p")), ShelfClaim::Cleaning);
    assert!(shelf.end_cleaning(small));
    // Nobody waits for one in which everything is being loaded, and only one of those is loaded at a time.
    let later = shelf
        .begin_cleaning(&key('a'), &kind("p"), ReadyAfter::FullLoad)
        .unwrap();
    assert_eq!(
        shelf.begin_cleaning(&key('a'), &kind("p"), ReadyAfter::FullLoad),
        None
    );
    assert_eq!(shelf.claim_own(&key('a'), &kind("p")), ShelfClaim::Nothing);
    assert!(shelf.end_cleaning(later));
    assert!(shelf.give_back(&key('a'), &kind("p"), 7, now).is_empty());
    assert_eq!(shelf.claim_own(&key('b'), &kind("p")), ShelfClaim::Nothing);
    assert_eq!(shelf.claim_own(&key('a'), &kind("t")), ShelfClaim::Nothing);
    assert_eq!(
        shelf.claim_own(&key('a'), &kind("p")),
        ShelfClaim::Granted(7)
    );
    assert_eq!(shelf.claim_own(&key('a'), &kind("p")), ShelfClaim::Nothing);
}

#[test]
fn the_least_recently_used_one_makes_room() {
    let (mut shelf, now) = (shelf(0, 2), Instant::now());
    for (digit, number) in [('a', 1), ('b', 2)] {
        assert!(
            shelf
                .give_back(&key(digit), &kind("p"), number, now)
                .is_empty()
        );
    }
    let ShelfClaim::Granted(used) = shelf.claim_own(&key('a'), &kind("p")) else {
        panic!("it is there")
    };
    assert!(shelf.give_back(&key('a'), &kind("p"), used, now).is_empty());
    assert_eq!(shelf.give_back(&key('c'), &kind("p"), 3, now), [2]);
}

#[test]
fn idle_and_dead_ones_go() {
    let (mut shelf, now) = (shelf(1, 9), Instant::now());
    let started = shelf.begin_start(now).unwrap();
    assert_eq!(shelf.started(&started, 1, now), None);
    let _ = shelf.give_back(&key('a'), &kind("p"), 2, now);
    let _ = shelf.give_back(&key('b'), &kind("p"), 3, now);
    assert!(shelf.expire(now, |_| false).is_empty());
    assert_eq!(shelf.expire(now, |sandbox| *sandbox == 3), [3]);
    assert_eq!(shelf.expire(now + TTL, |_| false), [2]);
    assert_eq!(shelf.expire(now + POOLED_TTL, |_| false), [1]);
    assert_eq!(shelf.count(), (0, 0));
}

#[test]
fn a_rebuilt_image_replaces_what_is_warm() {
    let (mut shelf, now) = (shelf(1, 9), Instant::now());
    let started = shelf.begin_start(now).unwrap();
    let _ = shelf.give_back(&key('a'), &kind("p"), 2, now);
    assert_eq!(shelf.set_kinds(&kinds(&["p2"], 1), Instant::now()), [2]);
    // What was begun before is returned, and does not count for the new image.
    assert_eq!(shelf.started(&started, 1, now), Some(1));
    assert_eq!(shelf.begin_start(now), Some(light("p2")));
    assert_eq!(shelf.give_back(&key('a'), &kind("p"), 5, now), [5]);
}

#[test]
fn an_image_that_is_gone_for_a_moment_does_not_upset_the_books() {
    let (mut shelf, now) = (shelf(1, 9), Instant::now());
    let begun = shelf.begin_start(now).unwrap();
    let _ = shelf.set_kinds(&kinds(&[], 1), Instant::now());
    let _ = shelf.set_kinds(&kinds(&["p"], 1), Instant::now());
    assert_eq!(shelf.begin_start(now), None, "one is being started already");
    assert_eq!(shelf.started(&begun, 1, now), None);
    assert_eq!((shelf.starting(), shelf.count()), (0, (1, 0)));
}

#[test]
fn a_conversation_that_was_deleted_wants_nothing_back() {
    let mut shelf = shelf(0, 9);
    let begin = |shelf: &mut Shelf<u32>, owner| {
        shelf
            .begin_cleaning(&key(owner), &kind("p"), ReadyAfter::Scrub)
            .unwrap()
    };
    let (deleted, kept) = (begin(&mut shelf, 'a'), begin(&mut shelf, 'b'));
    assert!(shelf.retire(&key('a')).is_empty());
    // It may be created again in the meantime.
    let anew = begin(&mut shelf, 'a');
    assert!(!shelf.end_cleaning(deleted));
    assert!(shelf.end_cleaning(kept) && shelf.end_cleaning(anew));
}

#[test]
fn a_closed_shelf_keeps_nothing() {
    let (mut shelf, now) = (shelf(1, 9), Instant::now());
    let _ = shelf.give_back(&key('a'), &kind("p"), 2, now);
    assert_eq!(shelf.close(), [2]);
    assert_eq!(shelf.begin_start(now), None);
    assert_eq!(
        shelf.begin_cleaning(&key('a'), &kind("p"), ReadyAfter::Scrub),
        None
    );
    assert_eq!(shelf.give_back(&key('a'), &kind("p"), 3, now), [3]);
}

#[test]
fn an_upload_is_for_the_kind_that_is_asked_for_most() {
    let (mut shelf, now) = (Shelf::new(9, TTL), Instant::now());
    let _ = shelf.set_kinds(&kinds(&["p", "t"], 1), Instant::now());
    for number in 0..2 {
        let kind = shelf.begin_start(now).unwrap();
        assert_eq!(shelf.started(&kind, number, now), None);
    }
    assert_eq!(shelf.claim_own(&key('a'), &kind("t")), ShelfClaim::Nothing);
    assert_eq!(shelf.likeliest_kind(), Some(kind("t")));
}

#[test]
fn what_is_loaded_and_not_needed_goes_and_the_sandbox_stays() {
    let (mut shelf, begun) = (shelf(0, 10), Instant::now());
    let at = |second| begun + Duration::from_secs(second);
    // Needed at as many seconds as their number; the one that is 0 has nothing loaded.
    for (digit, number) in [('a', 3), ('b', 0), ('c', 2)] {
        assert!(
            shelf
                .give_back(&key(digit), &kind("p"), number, at(10))
                .is_empty()
        );
    }
    let loaded = |number: &u32| (*number > 0).then(|| at(u64::from(*number)));
    assert!(shelf.begin_unloading(2, loaded, |_| false).is_none());
    let (ticket, owned) = shelf.begin_unloading(1, loaded, |_| false).unwrap();
    assert_eq!(
        (owned.key, owned.sandbox, owned.since),
        (key('c'), 2, at(10))
    );
    // One at a time, and a run of its conversation waits for it.
    assert!(shelf.begin_unloading(0, loaded, |_| true).is_none());
    assert_eq!(shelf.claim_own(&key('c'), &kind("p")), ShelfClaim::Cleaning);
    assert!(shelf.end_cleaning(ticket));
    assert!(shelf.give_back(&key('c'), &kind("p"), 0, at(10)).is_empty());
    let (_, owned) = shelf
        .begin_unloading(1, loaded, |needed| needed <= at(3))
        .unwrap();
    assert_eq!(owned.key, key('a'));
    assert!(shelf.begin_unloading(0, loaded, |_| true).is_none());
}

#[test]
fn what_was_made_light_keeps_its_place_in_the_order_of_use() {
    let (mut shelf, now) = (shelf(0, 2), Instant::now());
    for (digit, number) in [('a', 1), ('b', 2)] {
        let used = now + Duration::from_secs(number);
        let number = u32::try_from(number).unwrap();
        assert!(
            shelf
                .give_back(&key(digit), &kind("p"), number, used)
                .is_empty()
        );
    }
    let loaded = |number: &u32| (*number == 1).then_some(now);
    let (ticket, owned) = shelf.begin_unloading(0, loaded, |_| true).unwrap();
    assert!(shelf.end_cleaning(ticket));
    assert!(
        shelf
            .give_back(&owned.key, &owned.kind, owned.sandbox, owned.since)
            .is_empty()
    );
    let later = now + Duration::from_secs(9);
    assert_eq!(shelf.give_back(&key('c'), &kind("p"), 3, later), [1]);
}
