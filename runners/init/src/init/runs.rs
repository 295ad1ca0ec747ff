//! What PID 1 does with runs: programs that come and go.

use std::time::Instant;

use rustix::process::Pid;
use sandbox_init::{Nonce, Record, Status};

use super::{Answer, Init, KILL_AGAIN, LEFTOVERS, State};
use crate::Stop;
use crate::driver::Driver;
use crate::processes;
use crate::run::{self, Clock, Run};
use crate::sys::Ended;

impl Init {
    pub(super) fn start(&mut self, frame: sandbox_init::Run) -> Result<(), Stop> {
        let State::Waiting { parked, .. } = self.state else {
            return Ok(());
        };
        let clock = Clock::start(frame.deadline_ms, self.cgroup.usage());
        let started = match (parked, &self.driver) {
            (Some(pid), Some(driver)) => {
                let request = run::request(&frame.code, &frame.env, None);
                driver.request(request).map(|feed| (pid, feed))
            }
            _ => run::start_plain(&self.command, frame.code, &frame.env, &self.confinement),
        };
        match started {
            Ok((pid, feed)) => {
                self.state = State::Running(Run {
                    nonce: frame.nonce,
                    reuse: frame.reuse,
                    pid,
                    feed: Some(feed),
                    clock,
                    stopped: false,
                });
                self.pump();
                Ok(())
            }
            Err(error) => {
                self.output
                    .complain(&format!("the image's command cannot be started: {error}"));
                self.end(
                    frame.nonce,
                    frame.reuse,
                    None,
                    &clock,
                    run::not_started(&error),
                )
            }
        }
    }

    /// Ends the run if the server wants that.
    pub(super) fn heed(&mut self) -> Result<bool, Stop> {
        let Some(interrupt) = self.frames.next_interrupt()? else {
            return Ok(false);
        };
        if let State::Running(run) = &mut self.state
            && run.nonce == interrupt.nonce
        {
            run.stopped = true;
            self.kill_run();
        }
        Ok(true)
    }

    /// Kills everything of the run, and after a while again what did not die.
    pub(super) fn kill_run(&mut self) {
        if let State::Running(run) = &mut self.state {
            run.clock.deadline = Instant::now().checked_add(KILL_AGAIN);
            // A driver of the exec kind is the run process and goes with it.
            let driver = self.driver.as_ref();
            let spared = driver.map_or_else(Vec::new, |driver| driver.spared(Some(run.pid)));
            processes::kill_others(&spared);
        }
    }

    /// Follows a parked process that has passed the run on to another one, which it says before it ends.
    pub(super) fn follow(&mut self, ended: &Ended) {
        let (State::Running(run), Some(driver)) = (&mut self.state, &mut self.driver) else {
            return;
        };
        // A driver of the exec kind has closed its socket.
        if driver.pid == run.pid {
            return;
        }
        match driver.successor(ended.pid) {
            Ok(Some(pid)) => run.pid = pid,
            Ok(None) => {}
            Err(fault) => self.fault = Some(fault),
        }
    }

    /// Ends the run.
    pub(super) fn end(
        &mut self,
        nonce: Nonce,
        reuse: bool,
        ended: Option<&Ended>,
        clock: &Clock,
        status: Status,
    ) -> Result<(), Stop> {
        let end = clock.end(status, ended, self.cgroup.usage());
        if let Some(Err(fault)) = self.driver.as_ref().map(Driver::is_running) {
            self.fault = Some(fault);
        }
        // A process that is left could read the record, and the nonce in it, out of the pipe.
        let _ = processes::kill_until_harmless(&self.spared(), Instant::now() + LEFTOVERS);
        self.output.answer_on_both(&nonce, &Record::End(end))?;
        if !reuse {
            return Err(Stop::Done);
        }
        self.state = State::Dirty(nonce);
        Ok(())
    }

    /// The processes that outlive a run.
    pub(super) fn spared(&self) -> Vec<Pid> {
        let driver = self.driver.as_ref();
        driver.map_or_else(Vec::new, |driver| driver.spared(None))
    }

    /// Cleans up after a run and has the next run process parked.
    pub(super) fn scrub(&mut self, nonce: Nonce) -> Result<bool, Stop> {
        let verdict = match (self.fault.take(), &self.driver) {
            (Some(fault), _) => Err(fault),
            (None, None) => self.scrubber.scrub(&[]),
            (None, Some(driver)) => {
                let scrubbed = self.scrubber.scrub(&driver.spared(None));
                scrubbed.and_then(|()| driver.is_unchanged())
            }
        };
        match verdict {
            Ok(()) => self.park(Answer::Clean(nonce)),
            Err(reason) => self.parked(Answer::Clean(nonce), Err(reason)),
        }
    }
}
