//! Ends a leader whose time is over though nothing in it says so: it was stopped for a while, or all of its threads are
//! busy. So it has a thread of its own, which waits for nothing but the time.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

/// How long after the end of the lead: the election, which says why it ends, comes first if it can.
const LATE: Duration = Duration::from_millis(200);

/// Until when the process may go on.
#[derive(Debug)]
pub(super) struct Deadline(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    until: Mutex<Until>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
enum Until {
    #[default]
    Ever,
    At(Instant),
    /// Nobody sets it any more.
    Dropped,
}

impl Deadline {
    /// Calls `end` when the time has come. Until one is set, none has.
    pub(super) fn start(end: impl FnOnce() + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        thread::spawn(move || {
            if watched.is_over() {
                end();
            }
        });
        Self(shared)
    }

    /// Another time, or none.
    pub(super) fn set(&self, until: Option<Instant>) {
        self.0
            .set(until.map_or(Until::Ever, |until| Until::At(until + LATE)));
    }
}

impl Shared {
    fn set(&self, until: Until) {
        *self.until.lock() = until;
        self.changed.notify_one();
    }

    /// Waits for the time, or until it will not come.
    fn is_over(&self) -> bool {
        let mut until = self.until.lock();
        loop {
            match *until {
                Until::Ever => self.changed.wait(&mut until),
                Until::At(at) if Instant::now() >= at => return true,
                Until::At(at) => drop(self.changed.wait_until(&mut until, at.into_std())),
                Until::Dropped => return false,
            }
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.0.set(Until::Dropped);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn the_time_comes_once_it_is_not_put_off_any_more() {
        let (sender, ended) = mpsc::channel();
        let deadline = Deadline::start(move || sender.send(Instant::now()).unwrap());
        let begun = Instant::now();
        for _ in 0..10 {
            deadline.set(Some(Instant::now() + Duration::from_millis(50)));
            thread::sleep(Duration::from_millis(20));
        }
        let last = Instant::now();
        assert!(ended.recv_timeout(SOON).unwrap() >= last.max(begun));
    }

    #[test]
    fn it_never_comes_once_there_is_none() {
        let (sender, ended) = mpsc::channel::<()>();
        let deadline = Deadline::start(move || sender.send(()).unwrap());
        deadline.set(Some(Instant::now()));
        deadline.set(None);
        drop(deadline);
        assert_eq!(
            ended.recv_timeout(SOON),
            Err(mpsc::RecvTimeoutError::Disconnected)
        );
    }
}
