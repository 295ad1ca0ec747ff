//! How much of something may happen: so much at once, and then at a rate. What a program has others do for it is not in
//! its own share of the processor.

use std::time::Duration;

use tokio::time::Instant;

/// A bucket of as many as may happen at once, which fills up again at a rate.
#[derive(Debug)]
pub(super) struct Bucket {
    /// From one to the next, at the rate.
    apart: Duration,
    /// How far ahead one may be.
    ahead: Duration,
    /// When the next would be due if all had kept to the rate.
    due: Instant,
}

impl Bucket {
    /// This many at once, and as many each second.
    pub(super) fn per_second(count: u32) -> Self {
        let apart = Duration::from_secs(1) / count.max(1);
        Self {
            apart,
            ahead: apart * (count.max(1) - 1),
            due: Instant::now(),
        }
    }

    /// Takes one, and waits until there is one.
    pub(super) async fn take(&mut self) {
        let now = Instant::now();
        let due = self.due.max(now);
        self.due = due + self.apart;
        let wait = due.saturating_duration_since(now + self.ahead);
        // A timer takes a millisecond even for nothing.
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_at_once_and_then_at_the_rate() {
        let (mut bucket, begun) = (Bucket::per_second(100), Instant::now());
        for _ in 0..100 {
            bucket.take().await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for _ in 0..50 {
            bucket.take().await;
        }
        assert!(
            begun.elapsed() >= Duration::from_millis(490),
            "{:?}",
            begun.elapsed()
        );
        tokio::time::sleep(Duration::from_secs(10)).await;
        let begun = Instant::now();
        for _ in 0..200 {
            bucket.take().await;
        }
        assert!(
            begun.elapsed() >= Duration::from_millis(990),
            "{:?}",
            begun.elapsed()
        );
    }
}
