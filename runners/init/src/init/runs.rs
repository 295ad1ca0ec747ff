//! What PID 1 does with runs: programs that come and go.

use std::io;
use std::time::Instant;

use sandbox_init::{End, Frame, Record, Status};

use super::{Answer, Init, KILL_AGAIN, LEFTOVERS, State, UNTAKEN};
use crate::Stop;
use crate::processes;
use crate::run::{self, Clock, Request, Run};
use crate::sys::Ended;

/// Why a sandbox is not used again where nothing keeps its programs apart from those of another one.
const UNCONFINED: &str = "without Landlock, another sandbox could hold open files of this one";

impl Init {
    pub(super) fn start(&mut self, frame: sandbox_init::Run) -> Result<(), Stop> {
        let State::Waiting { parked, .. } = self.state else {
            return Ok(());
        };
        let clock = Clock::start(frame.deadline_ms, self.cgroup.usage());
        let (number, reuse) = (frame.number, frame.reuse);
        let (pid, feed, streams) = match (parked, &mut self.driver) {
            (Some(pid), Some(driver)) => {
                let request = Request::from(&frame).encode();
                let (feed, streams) = driver.request(pid, request)?;
                (pid, feed, streams)
            }
            _ => match run::start_plain(&self.command, frame, &self.confinement) {
                Ok(started) => started,
                Err(error) => return self.not_started(reuse, &clock, &error),
            },
        };
        self.state = State::Running(Run {
            number,
            reuse,
            pid,
            streams,
            taken: false,
            feed: Some(feed),
            clock,
            stopped: false,
        });
        self.pump();
        Ok(())
    }

    /// A command that cannot be started is a run that ends with an exit code, as in a shell.
    fn not_started(&mut self, reuse: bool, clock: &Clock, error: &io::Error) -> Result<(), Stop> {
        let text = format!("the image's command cannot be started: {error}");
        self.output.complain(&text);
        let end = clock.end(run::not_started(error), None, self.cgroup.usage());
        self.ended(reuse, end)
    }

    /// Does what the server wants of the run in progress.
    pub(super) fn handle_message(&mut self) -> Result<bool, Stop> {
        match self.frames.next_urgent()? {
            None => return Ok(false),
            Some(Frame::Interrupt(interrupt)) => self.stop_run(interrupt.number),
            Some(_) => self.weigh()?,
        }
        Ok(true)
    }

    fn stop_run(&mut self, number: u64) {
        if let State::Running(run) = &mut self.state
            && run.number == number
        {
            run.stopped = true;
            self.kill_run();
        }
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

    /// Learns which process is the program, which it says before it can end: the parked one, or one to which that has
    /// passed the request.
    pub(super) fn follow(&mut self, ended: &Ended) {
        let (State::Running(run), Some(driver)) = (&mut self.state, &mut self.driver) else {
            return;
        };
        // A driver of the exec kind has closed its socket.
        if driver.pid == run.pid || run.taken {
            return;
        }
        match driver.taken(ended.pid) {
            Ok(Some(pid)) => (run.pid, run.taken) = (pid, true),
            Ok(None) => {}
            Err(fault) => self.fault = Some(fault),
        }
    }

    /// Handles the end of the run process.
    pub(super) fn end(&mut self, process: &Ended) -> Result<(), Stop> {
        let State::Running(run) = &mut self.state else {
            return Ok(());
        };
        if let Some(driver) = &self.driver {
            // What it returned is not the program's doing.
            if matches!(process.status, Status::Exit(_)) && !run.taken {
                let reason = self.fault.take();
                return Err(Stop::NotReady(reason.unwrap_or(UNTAKEN.to_owned())));
            }
            if run.feed.is_some() {
                self.fault = Some("the request was not taken".to_owned());
            }
            if let Err(fault) = driver.is_running() {
                self.fault = Some(fault);
            }
        }
        let usage = self.cgroup.usage();
        let end = run.clock.end(process.status, Some(process), usage);
        // What is left could write more.
        let spared = self.driver.as_ref().map(|driver| driver.spared(None));
        let until = Instant::now() + LEFTOVERS;
        let _ = processes::kill_until_harmless(&spared.unwrap_or_default(), until);
        self.output.add_rest(&mut run.streams)?;
        let reuse = run.reuse;
        self.ended(reuse, end)
    }

    fn ended(&mut self, reuse: bool, end: End) -> Result<(), Stop> {
        self.output.answer(&Record::End(end))?;
        if !reuse {
            return Err(Stop::Done);
        }
        self.state = State::Dirty;
        Ok(())
    }

    /// Cleans up after a run and has the next run process parked.
    pub(super) fn scrub(&mut self) -> Result<bool, Stop> {
        let verdict = match (self.fault.take(), &self.driver) {
            (Some(fault), _) => Err(fault),
            _ if self.confinement.ruleset().is_none() => Err(UNCONFINED.to_owned()),
            (None, None) => self.scrubber.scrub(&[]),
            (None, Some(driver)) => {
                let scrubbed = self.scrubber.scrub(&driver.spared(None));
                scrubbed.and_then(|()| driver.is_unchanged())
            }
        };
        match verdict {
            Ok(()) => self.park(Answer::Clean),
            Err(reason) => self.parked(Answer::Clean, Err(reason)),
        }
    }
}
