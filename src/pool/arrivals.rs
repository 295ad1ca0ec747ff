//! How many conversations have come at once lately: as many may come again.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// What comes within this time comes at once: nothing is started ahead so quickly.
const AT_ONCE: Duration = Duration::from_secs(10);
/// How long a burst counts.
const REMEMBERED_FOR: Duration = Duration::from_mins(10);

/// Conversations by the time at which the first of them came.
#[derive(Debug, Default)]
pub(super) struct Arrivals(VecDeque<(Instant, usize)>);

impl Arrivals {
    /// Another one comes.
    pub(super) fn note(&mut self, now: Instant) {
        match self.0.back_mut() {
            Some((since, count)) if now < *since + AT_ONCE => *count += 1,
            _ => self.0.push_back((now, 1)),
        }
        self.0.retain(|(since, _)| now < *since + REMEMBERED_FOR);
    }

    /// The most that came at once.
    pub(super) fn peak(&self, now: Instant) -> usize {
        let remembered = self
            .0
            .iter()
            .filter(|(since, _)| now < *since + REMEMBERED_FOR);
        remembered.map(|(_, count)| *count).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_burst_is_remembered_for_a_while() {
        let (mut arrivals, begun) = (Arrivals::default(), Instant::now());
        assert_eq!(arrivals.peak(begun), 0);
        for second in [0, 1, 2, 9, 11, 30] {
            arrivals.note(begun + Duration::from_secs(second));
        }
        assert_eq!(arrivals.peak(begun + Duration::from_secs(31)), 4);
        assert_eq!(arrivals.peak(begun + REMEMBERED_FOR), 1);
        assert_eq!(arrivals.peak(begun + 2 * REMEMBERED_FOR), 0);
    }
}
