//! How many refusals are recorded one by one: whoever guesses tokens must not fill the disk.

use std::time::Duration;

use tokio::time::Instant;

/// The time in which they are counted.
pub(super) const WINDOW: Duration = Duration::from_mins(1);
/// How many of a window are recorded.
const RECORDED: u64 = 30;

/// The refusals of the current window.
#[derive(Debug, Default)]
pub(super) struct Denials {
    since: Option<Instant>,
    recorded: u64,
    left_out: u64,
}

impl Denials {
    /// Counts one. Returns whether it is to be recorded.
    pub(super) fn count(&mut self, now: Instant) -> bool {
        self.since.get_or_insert(now);
        if self.recorded < RECORDED {
            self.recorded += 1;
            return true;
        }
        self.left_out += 1;
        false
    }

    /// How many were left out of a window that is over, once.
    pub(super) fn over(&mut self, now: Instant) -> Option<u64> {
        let since = self.since?;
        (now - since >= WINDOW).then(|| self.end()).flatten()
    }

    /// The same of a window that ends here.
    pub(super) fn end(&mut self) -> Option<u64> {
        let over = std::mem::take(self);
        (over.left_out > 0).then_some(over.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_minute_is_counted_once() {
        let mut denials = Denials::default();
        let recorded = (0..100).filter(|_| denials.count(Instant::now())).count();
        assert_eq!(recorded, 30);
        assert_eq!(denials.over(Instant::now()), None);
        tokio::time::advance(WINDOW).await;
        assert_eq!(denials.over(Instant::now()), Some(70));
        assert_eq!(denials.over(Instant::now()), None);
        assert!(denials.count(Instant::now()));
        assert_eq!(denials.end(), None);
    }
}
