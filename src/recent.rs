//! A map that keeps its latest entries: none for longer than its age, and the oldest go first while there are too many
//! or they take too much. How long something is kept counts from its last [`update`](Recent::update).

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use hashlink::LinkedHashMap;
use tokio::time::Instant;

/// What a [`Recent`] may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How long an entry is kept after its last update.
    pub(crate) age: Duration,
    /// How many there are at most.
    pub(crate) count: usize,
    /// How many bytes they may take together, as far as their owner counts them.
    pub(crate) bytes: usize,
}

/// The latest entries, by key.
pub(crate) struct Recent<K, V> {
    bounds: Bounds,
    /// The least recently updated first, so that the oldest is found without looking at all of them.
    entries: LinkedHashMap<K, Entry<V>>,
    bytes: usize,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    updated: Instant,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            entries: LinkedHashMap::new(),
            bytes: 0,
        }
    }

    /// Puts an entry in, in place of an earlier one of the same key.
    pub(crate) fn insert(&mut self, key: K, value: V, bytes: usize) {
        self.remove(&key);
        let updated = Instant::now();
        self.put(
            key,
            Entry {
                value,
                bytes,
                updated,
            },
        );
    }

    /// Changes an entry, or the new one that `make` makes. `change` gets the number of its bytes too.
    pub(crate) fn update<T>(
        &mut self,
        key: K,
        make: impl FnOnce() -> V,
        change: impl FnOnce(&mut V, &mut usize) -> T,
    ) -> T {
        self.forget();
        let now = Instant::now();
        let mut entry = self.entries.remove(&key).unwrap_or_else(|| Entry {
            value: make(),
            bytes: 0,
            updated: now,
        });
        self.bytes -= entry.bytes;
        let result = change(&mut entry.value, &mut entry.bytes);
        entry.updated = now;
        self.put(key, entry);
        result
    }

    /// Puts the latest entry in. One that is too large by itself would take all others with it, and is not kept.
    fn put(&mut self, key: K, entry: Entry<V>) {
        if entry.bytes <= self.bounds.bytes {
            self.bytes += entry.bytes;
            self.entries.insert(key, entry);
            self.forget();
        }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        self.forget();
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// An entry that may be changed, as old as it is.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.forget();
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.forget();
        let entry = self.entries.remove(key)?;
        self.bytes -= entry.bytes;
        Some(entry.value)
    }

    /// All entries, the oldest first.
    pub(crate) fn iter(&mut self) -> impl Iterator<Item = (&K, &V)> {
        self.forget();
        let entries = self.entries.iter();
        entries.map(|(key, entry)| (key, &entry.value))
    }

    /// Forgets what is too old, and the oldest while there is too much.
    fn forget(&mut self) {
        while let Some((_, oldest)) = self.entries.front() {
            let too_much = self.entries.len() > self.bounds.count || self.bytes > self.bounds.bytes;
            if !too_much && !self.is_old(oldest) {
                return;
            }
            self.bytes -= oldest.bytes;
            self.entries.pop_front();
        }
    }

    fn is_old(&self, entry: &Entry<V>) -> bool {
        entry.updated.elapsed() >= self.bounds.age
    }
}

impl<K, V> fmt::Debug for Recent<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recent")
            .field("bounds", &self.bounds)
            .field("count", &self.entries.len())
            .field("bytes", &self.bytes)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::time::advance;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        age: Duration::from_secs(10),
        count: 3,
        bytes: 100,
    };

    fn keys(recent: &mut Recent<u8, ()>) -> Vec<u8> {
        recent.iter().map(|(key, ())| *key).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_ages_from_its_last_update() {
        let mut recent = Recent::new(BOUNDS);
        recent.insert(1, (), 0);
        recent.insert(2, (), 0);
        advance(BOUNDS.age / 2).await;
        recent.update(1, || unreachable!("it is there"), |(), _| ());
        advance(BOUNDS.age / 2).await;
        assert_eq!((keys(&mut recent), recent.get(&2)), (vec![1], None));
        assert_eq!(recent.entries.len(), 1, "what is old takes no memory");
        advance(BOUNDS.age).await;
        assert_eq!((keys(&mut recent), recent.remove(&1)), (vec![], None));
    }

    #[test]
    fn the_least_recently_updated_goes_first() {
        let mut recent = Recent::new(BOUNDS);
        for key in [1, 2, 3, 1, 4] {
            recent.update(key, || (), |(), _| ());
        }
        assert_eq!(keys(&mut recent), [3, 1, 4]);
    }

    #[test]
    fn what_alone_is_too_much_takes_no_others_with_it() {
        let mut recent = Recent::new(BOUNDS);
        recent.insert(1, (), 60);
        recent.insert(2, (), 101);
        recent.update(3, || (), |(), bytes| *bytes = 101);
        assert_eq!((keys(&mut recent), recent.bytes), (vec![1], 60));
    }

    proptest! {
        #[test]
        fn bounds_hold_whatever_is_done(steps in prop::collection::vec((0..4_u8, 0..6_u8, 0..120_usize), 0..60)) {
            let mut recent = Recent::new(BOUNDS);
            for (step, key, bytes) in steps {
                match step {
                    0 => recent.insert(key, (), bytes),
                    1 => recent.update(key, || (), |(), held| *held += bytes / 4),
                    2 => drop(recent.remove(&key)),
                    _ => drop(recent.get_mut(&key)),
                }
                prop_assert!(recent.entries.len() <= BOUNDS.count && recent.bytes <= BOUNDS.bytes);
                let counted = recent.entries.iter().map(|(_, entry)| entry.bytes).sum::<usize>();
                prop_assert_eq!(recent.bytes, counted);
            }
        }
    }
}
