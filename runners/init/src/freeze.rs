//! Stops every other process of the sandbox, so that for a while nothing in it can do anything.
//!
//! What is left alive between two cells of a kernel takes no processor time and writes nothing that would belong to no
//! cell.

use std::fs::{self, DirEntry};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::processes::{self, Stat};
use crate::sys;

/// How often to check whether they stand still.
const LOOK: Duration = Duration::from_micros(100);

/// How long what was continued on purpose may run at first, and each time twice as long: on a busy processor, its turn
/// comes late.
const MOMENT: Duration = Duration::from_micros(200);

/// After this long without success, and each time twice as long, all of them get another moment to run.
const STUCK: Duration = Duration::from_millis(20);

/// How many ancestors to look at for where a process comes from.
const GENERATIONS: usize = 16;

/// What a check of all of them found.
enum Look {
    /// No thread of these processes runs, or will run unless told to.
    Stand(Vec<Pid>),
    /// Those that do not stand still sleep where no signal reaches them, as a process does until the child that it made
    /// by vfork has a program of its own. Here are the children: if stopped, they would keep their parents from
    /// stopping.
    Wait(Vec<Pid>),
    Run,
}

/// Whether anything that was stopped runs, or is about to.
///
/// What the engine has paused is in a state of its own for a moment when it is resumed, and does not run in it.
pub(crate) fn is_undone() -> bool {
    let inside = processes::others(&[]).map(|mut pids| {
        pids.retain(|&pid| !is_from_outside(pid));
        pids
    });
    matches!(inside.map(look_at), Ok(Look::Run) | Err(_))
}

/// Whether a process was put in by the engine while the others stand still, as `docker exec` and the health check of an
/// image do, or is a descendant of one. No program can make one: its parent is not in here.
fn is_from_outside(mut pid: Pid) -> bool {
    for _ in 0..GENERATIONS {
        let parent = Stat::of(pid).map(|stat| Pid::from_raw(stat.parent));
        match parent {
            Some(None) => return true,
            Some(Some(parent)) if !parent.is_init() => pid = parent,
            _ => return false,
        }
    }
    false
}

/// Stops all other processes, waits until every thread of theirs stands still, and returns them; or fails if that is
/// not so by `until`.
pub(crate) fn freeze(until: Instant) -> Result<Vec<Pid>, String> {
    let mut patience = STUCK;
    loop {
        // Twice, since what was ending at the first check may have continued another one by its end.
        let looks_until = until.min(Instant::now() + patience);
        if stopped(looks_until).is_some()
            && let Some(others) = stopped(looks_until)
        {
            return Ok(others);
        }
        if Instant::now() >= until {
            return Err("processes cannot be stopped".to_owned());
        }
        thaw();
        thread::sleep(LOOK);
        patience *= 2;
    }
}

/// Lets all of them go on.
pub(crate) fn thaw() {
    sys::kill_all(Signal::CONT);
}

fn stopped(until: Instant) -> Option<Vec<Pid>> {
    let mut moment = MOMENT;
    sys::kill_all(Signal::STOP);
    loop {
        match look().unwrap_or(Look::Run) {
            Look::Stand(others) => return Some(others),
            _ if Instant::now() >= until => return None,
            // Their parents have already been told to stop, and make no more of them.
            Look::Wait(children) if !children.is_empty() => {
                for child in children {
                    let _ = kill_process(child, Signal::CONT);
                }
                thread::sleep(moment);
                moment *= 2;
                sys::kill_all(Signal::STOP);
            }
            Look::Wait(_) | Look::Run => thread::sleep(LOOK),
        }
    }
}

fn look() -> io::Result<Look> {
    processes::others(&[]).map(look_at)
}

fn look_at(others: Vec<Pid>) -> Look {
    let mut waiting = Vec::new();
    for &pid in &others {
        let states = states(pid);
        // One that has gone in the meantime does nothing any more.
        let ended = |state: &char| matches!(state, 'Z' | 'X');
        let stands = |state: &char| ended(state) || matches!(state, 'T' | 't' | 'D');
        if !states.iter().all(stands) || (!states.iter().all(ended) && may_be_woken(pid)) {
            return Look::Run;
        }
        if states.contains(&'D') {
            waiting.push(processes::raw(pid));
        }
    }
    if waiting.is_empty() {
        return Look::Stand(others);
    }
    let waits = |stat: Stat| waiting.contains(&stat.parent);
    let is_awaited = |pid: &Pid| Stat::of(*pid).is_some_and(waits);
    Look::Wait(others.into_iter().filter(is_awaited).collect())
}

/// Whether a timer will continue the process, or kill it, which can continue others: what is stopped in a group that
/// loses its last tie to its session is continued. The system call filter does not see which signal a timer sends, and
/// those of `timeout` are wanted.
///
/// The timers of a process that has made itself not dumpable cannot be seen: it counts as having such a timer. Where
/// the operating system's kernel keeps no list at all, a later check has to find out.
fn may_be_woken(pid: Pid) -> bool {
    match processes::read(&processes::path(pid, "timers")) {
        Ok(timers) => timers.lines().any(|line| {
            let signal = line.strip_prefix("signal: ");
            let number = signal.and_then(|signal| signal.split('/').next()?.parse().ok());
            [Signal::CONT, Signal::KILL]
                .iter()
                .any(|signal| number == Some(signal.as_raw()))
        }),
        Err(error) => !processes::is_gone(&error),
    }
}

/// The state of each thread. One that cannot be read counts as running, unless it has ended in the meantime.
fn states(pid: Pid) -> Vec<char> {
    let known = |read: io::Result<char>| match read {
        Err(error) if processes::is_gone(&error) => None,
        read => Some(read.unwrap_or('R')),
    };
    let state = |thread: io::Result<DirEntry>| {
        let stat = thread?.path().join("stat");
        Ok(Stat::read(&stat.to_string_lossy())?.state)
    };
    match fs::read_dir(processes::path(pid, "task")) {
        Ok(threads) => threads.map(state).filter_map(known).collect(),
        Err(error) => known(Err(error)).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_that_is_no_text_hides_nobody() {
        let rename = r"printf '\377' >/proc/$$/comm; echo renamed; read line";
        let mut child = Command::new("sh")
            .args(["-c", rename])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut renamed = [0; 8];
        child
            .stdout
            .take()
            .unwrap()
            .read_exact(&mut renamed)
            .unwrap();
        assert_eq!(states(Pid::from_child(&child)).len(), 1);
        drop(child.stdin.take());
        child.wait().unwrap();
        // It was waited for: nothing is there any more.
        assert_eq!(states(Pid::from_child(&child)), []);
    }
}
