//! Which directory has which user, and which users are free. Pure.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::RangeInclusive;

use crate::config::UidRange;

/// Users that a server reserves at a time.
const SLICE: u32 = 256;

/// The books on users. A directory is known by its name: the key of a conversation, or a name in the private directory.
#[derive(Debug)]
pub(super) struct Book {
    range: UidRange,
    /// Slices that this server alone gives users from.
    slices: BTreeSet<u32>,
    /// The one that was given back longest ago comes first: containers of its former conversation are gone by then. May
    /// have some that are no longer free.
    free: VecDeque<u32>,
    holders: HashMap<u32, Box<str>>,
}

impl Book {
    pub(super) fn new(range: UidRange) -> Self {
        Self {
            range,
            slices: BTreeSet::new(),
            free: VecDeque::new(),
            holders: HashMap::new(),
        }
    }

    /// Who has this user.
    pub(super) fn holder(&self, uid: u32) -> Option<&str> {
        self.holders.get(&uid).map(|name| &**name)
    }

    /// A directory has this user, whoever had it before.
    pub(super) fn hold(&mut self, uid: u32, name: &str) {
        self.holders.insert(uid, name.into());
    }

    /// A directory with this user was found. The first to be found has it.
    pub(super) fn found(&mut self, uid: u32, name: &str) {
        if self.range.contains(uid) {
            self.holders.entry(uid).or_insert_with(|| name.into());
        }
    }

    /// Gives a free user to a directory. `None` if there is none in the slices.
    pub(super) fn take(&mut self, name: &str) -> Option<u32> {
        loop {
            let uid = self.free.pop_front()?;
            if !self.holders.contains_key(&uid) {
                self.hold(uid, name);
                return Some(uid);
            }
        }
    }

    /// The directory `from` is called `to` now.
    pub(super) fn rename(&mut self, uid: u32, from: &str, to: &str) {
        if self.holder(uid) == Some(from) {
            self.hold(uid, to);
        }
    }

    /// The directory is gone, or has another user.
    pub(super) fn release(&mut self, uid: u32, name: &str) {
        if self.holder(uid) == Some(name) {
            self.holders.remove(&uid);
            self.freed(uid);
        }
    }

    /// Takes users back from directories that do not have them any more.
    pub(super) fn retain(&mut self, mut has: impl FnMut(&str, u32) -> bool) {
        let gone = self.holders.extract_if(|uid, name| !has(name, *uid));
        let gone: Vec<_> = gone.map(|(uid, _)| uid).collect();
        for uid in gone {
            self.freed(uid);
        }
    }

    /// Slices of the range that are not ours yet.
    pub(super) fn other_slices(&self) -> impl Iterator<Item = u32> + use<> {
        let slices = self.slices.clone();
        (self.range.first / SLICE..=self.range.last / SLICE)
            .filter(move |slice| !slices.contains(slice))
    }

    /// From now on users of this slice are given out here. What has one of them already must have been found before.
    pub(super) fn add(&mut self, slice: u32) {
        self.slices.insert(slice);
        let uids = uids(self.range, slice).filter(|uid| !self.holders.contains_key(uid));
        self.free.extend(uids);
    }

    fn freed(&mut self, uid: u32) {
        if self.slices.contains(&(uid / SLICE)) {
            self.free.push_back(uid);
        }
    }
}

/// The users of a slice.
fn uids(range: UidRange, slice: u32) -> RangeInclusive<u32> {
    let first = slice * SLICE;
    range.first.max(first)..=range.last.min(first + (SLICE - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: UidRange = UidRange {
        first: 70_000,
        last: 70_999,
    };

    fn with_all(range: UidRange) -> Book {
        let mut book = Book::new(range);
        for slice in book.other_slices() {
            book.add(slice);
        }
        book
    }

    #[test]
    fn slices_have_every_user_once() {
        let mut book = with_all(RANGE);
        assert_eq!(book.other_slices().count(), 0);
        let mut taken: Vec<_> = std::iter::from_fn(|| book.take("a")).collect();
        taken.sort_unstable();
        assert!(taken.into_iter().eq(RANGE.first..=RANGE.last));
    }

    #[test]
    fn the_highest_users_are_in_slices_too() {
        let range = UidRange {
            first: i32::MAX as u32 - 1,
            last: i32::MAX as u32,
        };
        let mut book = with_all(range);
        assert_eq!(book.take("a"), Some(range.first));
        assert_eq!(book.take("b"), Some(range.last));
        assert_eq!(book.take("c"), None);
    }

    #[test]
    fn a_user_comes_back_when_its_directory_is_gone_and_after_all_others() {
        let mut book = with_all(UidRange {
            first: 70_000,
            last: 70_002,
        });
        let (one, two) = (book.take("one").unwrap(), book.take("two").unwrap());
        assert_ne!(one, two);
        book.rename(one, "one", "leaving");
        book.release(one, "one");
        assert_eq!(book.holder(one), Some("leaving"), "the tree is still there");
        book.release(one, "leaving");
        let three = book.take("three").unwrap();
        assert!(three != one && three != two, "the unused one first");
        assert_eq!(book.take("four"), Some(one));
        assert_eq!(book.take("five"), None);
    }

    #[test]
    fn what_was_found_is_not_given_again() {
        let mut book = Book::new(RANGE);
        book.found(70_001, "one");
        book.found(70_001, "copy");
        book.found(1_000, "old");
        for slice in book.other_slices() {
            book.add(slice);
        }
        assert_eq!(book.holder(70_001), Some("one"));
        assert_eq!(book.holder(1_000), None);
        let taken: Vec<_> = std::iter::from_fn(|| book.take("a")).collect();
        assert!(taken.len() == 999 && !taken.contains(&70_001));
        // Its directory was removed by another server.
        book.retain(|name, _| name != "one");
        assert_eq!(book.take("b"), Some(70_001));
    }

    #[test]
    fn another_servers_slices_stay_its_own() {
        let mut book = Book::new(RANGE);
        let slice = book.other_slices().next().unwrap();
        book.add(slice);
        let theirs = RANGE.last;
        book.found(theirs, "theirs");
        book.release(theirs, "theirs");
        let taken: Vec<_> = std::iter::from_fn(|| book.take("a")).collect();
        assert!(!taken.is_empty() && taken.iter().all(|uid| uid / SLICE == slice));
    }
}
