//! Stops every other process of the sandbox, so that for a while nothing in it can do anything.
//!
//! A program can open the pipe that it shares with PID 1 for reading. What is left alive, as a kernel is between its
//! cells, must therefore stand still from before an end record is written until the server has read it.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::processes::{self, Stat};
use crate::sys;

/// How often to look whether they stand.
const LOOK: Duration = Duration::from_micros(100);

/// A process that waits for a child it made by vfork stops only after that child has gone on. After so long, all of
/// them get another moment to run. Where the processor is busy they take longer to stop: each time twice as long.
const STUCK: Duration = Duration::from_millis(20);

/// Stops all other processes and waits until every thread of theirs stands, or says that it cannot be done by `until`.
pub(crate) fn freeze(until: Instant) -> Result<(), String> {
    let mut patience = STUCK;
    loop {
        // A second time, since what was ending at the first look may have continued another one with its end.
        let looks_until = until.min(Instant::now() + patience);
        if stopped(looks_until) && stopped(looks_until) {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err("processes cannot be stopped".to_owned());
        }
        thaw();
        thread::sleep(LOOK);
        patience *= 2;
    }
}

/// Lets them all go on.
pub(crate) fn thaw() {
    sys::kill_all(Signal::CONT);
}

fn stopped(until: Instant) -> bool {
    sys::kill_all(Signal::STOP);
    loop {
        if all_stand().unwrap_or(false) {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(LOOK);
    }
}

/// Whether no thread of another process runs, or will without being told to.
fn all_stand() -> io::Result<bool> {
    for pid in processes::others(&[])? {
        let Ok(threads) = fs::read_dir(processes::path(pid, "task")) else {
            continue;
        };
        for thread in threads.flatten() {
            let stat = processes::read(&thread.path().join("stat").to_string_lossy());
            // One that is gone meanwhile does nothing any more.
            let Some(stat) = stat.ok().and_then(|text| Stat::parse(&text)) else {
                continue;
            };
            if !matches!(stat.state, 'T' | 't' | 'Z' | 'X') {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
