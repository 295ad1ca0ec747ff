//! What PID 1 does once a run process has become a kernel.

use std::time::{Duration, Instant};

use sandbox_init::{Frame, Record, Status};

use super::{Init, KILL_AGAIN, LEFTOVERS, LOOK, State, UNTAKEN};
use crate::Stop;
use crate::feed::Feed;
use crate::freeze::{freeze, is_undone, thaw};
use crate::held::{Look, held};
use crate::kernel::{CLOSED, Cell, Kernel, after};
use crate::processes;
use crate::run::Clock;
use crate::sys::Ended;

/// How long an end record waits for everything to stand still, before everything is killed instead.
const STANDING: Duration = Duration::from_secs(2);

impl Init {
    /// Turns the parked run process into a kernel, with its first cell.
    pub(super) fn start_kernel(&mut self, frame: &sandbox_init::Cell) -> Result<(), Stop> {
        let State::Waiting {
            parked: Some(pid), ..
        } = self.state
        else {
            return Err(Stop::NotReady("nothing is parked for a kernel".to_owned()));
        };
        let Some(driver) = self.driver.take() else {
            return Err(Stop::NotReady("the driver ended".to_owned()));
        };
        let clock = Clock::start(frame.deadline_ms, self.cgroup.usage());
        let (kernel, feed) = Kernel::start(pid, driver, frame)?;
        self.kernel = Some(kernel);
        self.begin(frame, clock, feed);
        Ok(())
    }

    fn begin(&mut self, frame: &sandbox_init::Cell, clock: Clock, feed: Feed) {
        self.state = State::Working(Cell {
            number: frame.number,
            feed: Some(feed),
            clock,
            grace: Duration::from_millis(frame.interrupt_ms),
            interrupted: false,
            doomed: false,
        });
        self.pump();
    }

    /// Goes on between two cells.
    pub(super) fn rest(&mut self) -> Result<bool, Stop> {
        match self.frames.next_frame()? {
            None => Ok(false),
            Some(Frame::Cell(frame)) => {
                must_stand()?;
                let clock = Clock::start(frame.deadline_ms, self.cgroup.usage());
                let kernel = self.kernel.as_mut().ok_or(Stop::NotForKernel)?;
                let feed = kernel.request(&frame)?;
                self.begin(&frame, clock, feed);
                thaw();
                Ok(true)
            }
            Some(Frame::Listen(frame)) => {
                self.hatch.hand_over(&frame);
                Ok(true)
            }
            Some(Frame::Interrupt(_)) => Ok(true),
            Some(Frame::Weigh) => self.weigh().map(|()| true),
            Some(Frame::Park(_) | Frame::Run(_)) => Err(Stop::NotForKernel),
        }
    }

    /// Goes on during a cell.
    pub(super) fn work(&mut self) -> Result<bool, Stop> {
        match self.frames.next_frame()? {
            None => {}
            Some(Frame::Interrupt(frame)) => {
                self.interrupt(frame.number);
                return Ok(true);
            }
            Some(Frame::Weigh) => return self.weigh().map(|()| true),
            Some(_) => return Err(Stop::NotForKernel),
        }
        let (State::Working(cell), Some(kernel)) = (&mut self.state, &mut self.kernel) else {
            return Ok(false);
        };
        if !cell.listens() {
            return Ok(false);
        }
        match kernel.done() {
            Ok(None) => Ok(false),
            Ok(Some(status)) => self.done(status).map(|()| true),
            Err(reason) => {
                if reason != CLOSED {
                    self.output.complain(&reason);
                }
                self.doom();
                Ok(false)
            }
        }
    }

    /// Interrupts the cell because the server wants it to end.
    fn interrupt(&mut self, number: u64) {
        if let (State::Working(cell), Some(kernel)) = (&mut self.state, &self.kernel)
            && cell.number == number
            && cell.may_be_interrupted()
        {
            cell.interrupted = true;
            cell.clock.deadline = after(cell.grace);
            kernel.interrupt();
        }
    }

    /// Handles an alarm of the cell's clock: the first, or one after the cell was interrupted or killed.
    pub(super) fn overdue(&mut self) {
        if let (State::Working(cell), Some(kernel)) = (&mut self.state, &self.kernel)
            && cell.may_be_interrupted()
        {
            cell.interrupted = true;
            cell.clock.timed_out = true;
            cell.clock.deadline = after(cell.grace);
            kernel.interrupt();
        } else {
            self.doom();
        }
    }

    /// Kills everything. The end of the kernel's process is then the end of the cell.
    pub(super) fn doom(&mut self) {
        if let State::Working(cell) = &mut self.state {
            cell.doomed = true;
            cell.feed = None;
            cell.clock.deadline = after(KILL_AGAIN);
            processes::kill_others(&[]);
        }
    }

    /// Ends the cell that is over according to the kernel. What lives on stands still before anybody is told.
    fn done(&mut self, status: Status) -> Result<(), Stop> {
        let (State::Working(cell), Some(kernel)) = (&mut self.state, &mut self.kernel) else {
            return Ok(());
        };
        let others = match freeze(cell.stands_until(Instant::now() + STANDING)) {
            Ok(others) => others,
            Err(reason) => {
                self.output.complain(&reason);
                self.doom();
                return Ok(());
            }
        };
        // It would stay until the next cell, and a short one is over before anybody looks.
        if cell.clock.finds_excess() {
            self.doom();
            return Ok(());
        }
        let mut end = cell.clock.end(status, None, self.cgroup.usage());
        end.peak_bytes = end.peak_bytes.or_else(|| kernel.peak());
        end.lives = true;
        end.held = held(&others, Look::Open);
        let held = end.held;
        self.output.add_rest(&mut kernel.streams)?;
        self.output.answer(&Record::End(end))?;
        self.state = State::Resting {
            until: self.idle_until(),
            // At once: reading its output may have woken a process.
            look: Instant::now(),
            weigh: Some((Instant::now() + LOOK, held)),
        };
        Ok(())
    }

    /// Handles the end of a child while there is a kernel. If it is the kernel, everything ends.
    pub(super) fn reaped_beside_kernel(&mut self, ended: &Ended) -> Result<(), Stop> {
        let Some(kernel) = self.kernel.as_mut() else {
            return Ok(());
        };
        kernel.follow(ended.pid);
        if kernel.pid != ended.pid {
            return Ok(());
        }
        let State::Working(cell) = &self.state else {
            return Err(Stop::NotReady("the kernel ended".to_owned()));
        };
        if matches!(ended.status, Status::Exit(_)) && kernel.is_untaken() {
            return Err(Stop::NotReady(UNTAKEN.to_owned()));
        }
        let end = cell
            .clock
            .end(ended.status, Some(ended), self.cgroup.usage());
        // What is left could write more.
        let _ = processes::kill_until_harmless(&[], Instant::now() + LEFTOVERS);
        self.output.add_rest(&mut kernel.streams)?;
        self.output.answer(&Record::End(end))?;
        Err(Stop::Done)
    }
}

/// Ends a sandbox in which something goes on between two cells: it was stopped, and neither PID 1 nor the server let it
/// go on. The operating system's kernel sends SIGCONT in more cases than programs can be kept from, above all when
/// terminals hang up.
pub(super) fn must_stand() -> Result<(), Stop> {
    if is_undone() {
        return Err(Stop::NotReady(
            "the kernel went on between its cells".to_owned(),
        ));
    }
    Ok(())
}
