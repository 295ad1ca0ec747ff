//! The state machine of PID 1 and its event loop.

mod cells;
mod parks;
mod runs;
mod weigh;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::stdio;
use sandbox_init::{Frame, FrameReader, Held, Park};

use crate::Stop;
use crate::cgroup::Cgroup;
use crate::confine::Confinement;
use crate::dial::Dial;
use crate::driver::Driver;
use crate::feed::{Feed, Progress};
use crate::hatch::Hatch;
use crate::kernel::{Cell, Kernel};
use crate::output::Output;
use crate::run::Run;
use crate::scrub::Scrubber;
use crate::streams::Streams;
use crate::sys::{self, Ended};

/// How long a sandbox waits for a frame unless it was told otherwise.
const IDLE: Duration = Duration::from_mins(1);

/// How long a driver may take to park a run process.
const PARKING: Duration = Duration::from_mins(1);

/// How often to check again for what no descriptor tells.
const TICK: Duration = Duration::from_millis(1);

/// How long to let output gather that comes steadily.
const GATHER: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000,
};

/// How often to check that everything stands still between two cells.
const LOOK: Duration = Duration::from_secs(1);

/// How long an end record waits until what a run left behind is killed.
const LEFTOVERS: Duration = Duration::from_millis(500);

/// How often to kill again what did not die at the deadline.
const KILL_AGAIN: Duration = Duration::from_millis(100);

/// Why a run has no end: its process was given the program, and left without it.
const UNTAKEN: &str = "the parked process ended without its program";

/// PID 1.
#[derive(Debug)]
pub(crate) struct Init {
    command: Vec<OsString>,
    signals: OwnedFd,
    hatch: Hatch,
    frames: FrameReader,
    output: Output,
    cgroup: Cgroup,
    confinement: Confinement,
    scrubber: Scrubber,
    park: Option<Park>,
    driver: Option<Driver>,
    /// Once there is a kernel, only cells are taken.
    kernel: Option<Kernel>,
    /// The addresses that are being tried, until a `park` frame is answered.
    dial: Option<Dial>,
    /// What a run did that no scrub can undo.
    fault: Option<String>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Waits for a frame. `parked` is a run process that waits too.
    Waiting {
        parked: Option<Pid>,
        until: Option<Instant>,
    },
    /// Waits for the driver to park a run process.
    Parking { answer: Answer, until: Instant },
    /// Waits for the run process to end.
    Running(Run),
    /// The run is over, and there may be another one after the scrub.
    Dirty,
    /// Waits for the kernel to end a cell.
    Working(Cell),
    /// Waits for the next cell. Everything else in the sandbox stands still, which is checked now and then.
    Resting {
        until: Option<Instant>,
        look: Instant,
        /// When to look more closely at what is held, and what the end record says of it.
        weigh: Option<(Instant, Held)>,
    },
}

/// What a parked run process is the answer to.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Ready,
    Clean,
}

impl Init {
    pub(crate) fn new(
        signals: OwnedFd,
        hatch: Hatch,
        command: Vec<OsString>,
    ) -> Result<Self, Stop> {
        Ok(Self {
            command,
            signals,
            hatch,
            frames: FrameReader::new(),
            output: Output::open()?,
            cgroup: Cgroup::open(Path::new("/sys/fs/cgroup")),
            confinement: Confinement::new()?,
            scrubber: Scrubber::new(),
            park: None,
            driver: None,
            kernel: None,
            dial: None,
            fault: None,
            state: State::Waiting {
                parked: None,
                until: Instant::now().checked_add(IDLE),
            },
        })
    }

    /// Serves until there is a reason to stop.
    pub(crate) fn serve(&mut self) -> Stop {
        loop {
            if let Err(stop) = self.turn() {
                return stop;
            }
        }
    }

    /// Tells the server, if it listens, why the sandbox ends.
    pub(crate) fn complain(&mut self, stop: &Stop) {
        self.output.complain(&stop.to_string());
        let _ = self.output.push();
    }

    /// Waits for something to happen and does everything that follows from it.
    fn turn(&mut self) -> Result<(), Stop> {
        let happened = self.wait()?;
        if happened.signal {
            if sys::told_to_stop(&self.signals) {
                return Err(Stop::Gone);
            }
            while let Some(ended) = sys::reap() {
                self.reaped(&ended)?;
            }
        }
        if happened.input {
            self.read()?;
        }
        self.listen(happened.words);
        self.pump();
        self.check_time()?;
        while self.advance()? {}
        self.output.push_due()
    }

    /// Passes on what was written, and keeps the last of what a driver says. Nothing is read while the server is
    /// behind: then the pipes fill up, and whoever writes to them waits.
    fn listen(&mut self, words: bool) {
        if let Some(driver) = self.driver.as_mut().filter(|_| words) {
            driver.listen();
        }
        if self.output.is_behind() {
            return;
        }
        let streams = match (&mut self.state, &mut self.kernel) {
            (State::Running(run), _) => &mut run.streams,
            (State::Working(_), Some(kernel)) => &mut kernel.streams,
            _ => return,
        };
        if streams.is_steady() {
            // What ends the run is not kept waiting.
            let mut ends = [PollFd::new(&self.signals, PollFlags::IN)];
            let _ = poll(&mut ends, Some(&GATHER));
        }
        streams.read(|stream, bytes| self.output.add(stream, bytes));
    }

    /// The streams of what runs.
    fn streams(&self) -> Option<&Streams> {
        match &self.state {
            State::Running(run) => Some(&run.streams),
            State::Working(_) => self.kernel.as_ref().map(|kernel| &kernel.streams),
            _ => None,
        }
    }

    fn wait(&self) -> Result<Happened, Stop> {
        let mut sources = self.sources();
        let driver = self.driver.as_ref();
        let words = driver.and_then(|driver| driver.streams.as_ref());
        sources.extend(
            words
                .iter()
                .map(|streams| PollFd::new(&streams.readiness, PollFlags::IN)),
        );
        let timeout = self.left().and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Stop::System(error.into())),
        }
        let input = sources[1].revents();
        if !input.contains(PollFlags::IN) && input.intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(Stop::Gone);
        }
        Ok(Happened {
            signal: !sources[0].revents().is_empty(),
            input: input.contains(PollFlags::IN),
            words: words.is_some()
                && sources
                    .last()
                    .is_some_and(|last| !last.revents().is_empty()),
        })
    }

    /// What is waited for: signals, the server, and what the state of things asks for.
    fn sources(&self) -> Vec<PollFd<'_>> {
        // A frame that is not due yet waits, here or in the pipe, so nothing grows.
        let input = if self.frames.is_ready() {
            PollFlags::empty()
        } else {
            PollFlags::IN
        };
        let mut sources = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::from_borrowed_fd(stdio::stdin(), input),
        ];
        match (&self.state, &self.driver) {
            (State::Running(Run { feed, .. }) | State::Working(Cell { feed, .. }), _)
                if feed.is_some() =>
            {
                sources.extend(
                    feed.iter()
                        .map(|feed| PollFd::new(&feed.fd, PollFlags::OUT)),
                );
            }
            (State::Working(cell), _) if cell.listens() => {
                let kernel = self.kernel.iter();
                sources.extend(kernel.map(|kernel| PollFd::new(&kernel.socket, PollFlags::IN)));
            }
            (
                State::Parking { .. }
                | State::Waiting {
                    parked: Some(_), ..
                },
                Some(driver),
            ) if !driver.is_adopting() => {
                sources.push(PollFd::new(&driver.socket, PollFlags::IN));
            }
            _ => {}
        }
        if self.output.is_behind() {
            sources.push(PollFd::new(&self.output.stream, PollFlags::OUT));
        } else {
            let streams = self.streams().into_iter();
            sources.extend(streams.map(|streams| PollFd::new(&streams.readiness, PollFlags::IN)));
        }
        sources
    }

    /// How long there may be nothing to do, unless something happens.
    fn left(&self) -> Option<Duration> {
        let has_more = self.streams().is_some_and(Streams::has_more) && !self.output.is_behind();
        if has_more {
            return Some(Duration::ZERO);
        }
        let due = self.timer().into_iter().chain(self.output.due()).min();
        due.map(|at| at.saturating_duration_since(Instant::now()))
    }

    fn timer(&self) -> Option<Instant> {
        match &self.state {
            State::Waiting { until, .. } => *until,
            State::Resting { until, look, .. } => {
                Some(until.map_or(*look, |until| until.min(*look)))
            }
            State::Parking { until, .. } => match &self.driver {
                Some(driver) if driver.is_adopting() => Some(Instant::now() + TICK),
                _ => Some(*until),
            },
            State::Running(Run { clock, .. }) | State::Working(Cell { clock, .. }) => {
                Some(clock.timer())
            }
            State::Dirty => None,
        }
    }

    /// Reads what has come on standard input.
    fn read(&mut self) -> Result<(), Stop> {
        let mut buffer = [0; 1 << 14];
        match rustix::io::read(stdio::stdin(), &mut buffer) {
            Ok(0) => Err(Stop::Gone),
            Ok(length) => {
                self.frames.feed(&buffer[..length]);
                Ok(())
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(()),
            Err(_) => Err(Stop::Gone),
        }
    }

    /// Gives the run process more of its code.
    fn pump(&mut self) {
        if let Some(feed) = self.feed()
            && feed
                .as_mut()
                .is_some_and(|feed| feed.pump() != Progress::Waiting)
        {
            *feed = None;
        }
    }

    fn feed(&mut self) -> Option<&mut Option<Feed>> {
        match &mut self.state {
            State::Running(Run { feed, .. }) | State::Working(Cell { feed, .. }) => Some(feed),
            _ => None,
        }
    }

    fn check_time(&mut self) -> Result<(), Stop> {
        let now = Instant::now();
        if let State::Running(Run { clock, .. }) | State::Working(Cell { clock, .. }) =
            &mut self.state
            && clock.is_excessive(now)
        {
            self.kill_run();
            self.doom();
        }
        match &mut self.state {
            State::Waiting {
                until: Some(until), ..
            }
            | State::Resting {
                until: Some(until), ..
            } if now >= *until => Err(Stop::Gone),
            State::Resting { look, .. } if now >= *look => {
                *look = now + LOOK;
                self.look_at_rest()
            }
            State::Working(cell) if cell.clock.deadline.is_some_and(|deadline| now >= deadline) => {
                self.overdue();
                Ok(())
            }
            State::Running(run) if run.clock.deadline.is_some_and(|deadline| now >= deadline) => {
                run.clock.time_is_up(run.stopped);
                self.kill_run();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Does what can be done without waiting; true if there may be more.
    fn advance(&mut self) -> Result<bool, Stop> {
        match &mut self.state {
            State::Waiting { parked, .. } => {
                let is_parked = parked.is_some();
                self.take_frame(is_parked)
            }
            State::Parking { answer, until } => {
                let verdict = match self.driver.as_mut().map(Driver::parked) {
                    Some(Ok(None)) if Instant::now() < *until => return Ok(false),
                    Some(Ok(None)) => Err("the driver is too slow".to_owned()),
                    Some(other) => other,
                    None => Err("the driver ended".to_owned()),
                };
                let verdict = verdict.map_err(|reason| match &mut self.driver {
                    Some(driver) => driver.failed(&reason),
                    None => reason,
                });
                let answer = *answer;
                self.parked(answer, verdict)
            }
            State::Running(_) => self.handle_message(),
            State::Dirty => self.scrub(),
            State::Working(_) => self.work(),
            State::Resting { .. } => self.rest(),
        }
    }

    /// Takes the next frame, if it has come. While a run process is parked, its driver must have stayed silent.
    fn take_frame(&mut self, is_parked: bool) -> Result<bool, Stop> {
        let driver = self.driver.as_mut().filter(|_| is_parked);
        if let Some(fault) = driver.and_then(Driver::spoke) {
            return Err(Stop::NotReady(fault));
        }
        match self.frames.next_frame()? {
            None => Ok(false),
            Some(Frame::Park(park)) => {
                let removed = self.remove_driver();
                self.dial = Dial::begin(&park.must_not_reach);
                self.park = Some(park);
                match removed {
                    Ok(()) => self.park(Answer::Ready),
                    Err(reason) => self.parked(Answer::Ready, Err(reason)),
                }
            }
            Some(Frame::Run(run)) => self.start(run).map(|()| true),
            Some(Frame::Listen(frame)) => {
                self.hatch.hand_over(&frame);
                Ok(true)
            }
            Some(Frame::Cell(cell)) => self.start_kernel(&cell).map(|()| true),
            // Its cell has already ended.
            Some(Frame::Interrupt(_)) => Ok(true),
            Some(Frame::Weigh) => self.weigh().map(|()| true),
        }
    }

    /// Handles the end of a child.
    fn reaped(&mut self, ended: &Ended) -> Result<(), Stop> {
        let mut driver = self.driver.take_if(|driver| driver.pid == ended.pid);
        self.follow(ended);
        match &self.state {
            State::Running(run) if run.pid == ended.pid => self.end(ended),
            State::Working(_) | State::Resting { .. } => self.reaped_beside_kernel(ended),
            State::Waiting {
                parked: Some(pid), ..
            } if driver.is_some() || *pid == ended.pid => {
                let reason = "the parked process ended";
                let reason = driver
                    .as_mut()
                    .or(self.driver.as_mut())
                    .map_or_else(|| reason.to_owned(), |driver| driver.failed(reason));
                Err(Stop::NotReady(reason))
            }
            State::Parking { answer, .. } if let Some(driver) = &mut driver => {
                let reason = driver.failed("the driver ended");
                self.parked(*answer, Err(reason)).map(drop)
            }
            State::Running(_) | State::Dirty if driver.is_some() => {
                self.fault = Some("the driver ended".to_owned());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Why `poll` returned, where it matters.
struct Happened {
    signal: bool,
    input: bool,
    /// The driver said something that belongs to no run.
    words: bool,
}
