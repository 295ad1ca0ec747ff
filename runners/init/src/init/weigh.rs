//! What PID 1 says about space that no name shows.

use std::time::Instant;

use rustix::process::Pid;
use sandbox_init::Record;

use super::{Init, State, cells};
use crate::Stop;
use crate::driver::Driver;
use crate::held::held_by_others;

impl Init {
    /// Answers the server, which wants to know now. While a program runs, the answer is a guess.
    pub(super) fn weigh(&mut self) -> Result<(), Stop> {
        let run = match &self.state {
            State::Running(run) => Some(run.pid),
            _ => None,
        };
        // They are closed to others, and have nothing of the conversation.
        let spared = |driver: &Driver| driver.spared(run);
        let spared: Vec<Pid> = self.driver.as_ref().map_or_else(Vec::new, spared);
        let held = held_by_others(&spared);
        self.output.answer(&Record::Held(held))
    }

    /// Looks at a kernel between its cells: whether it stands still, and, when it has rested for a while, at what the
    /// end record had no time for.
    pub(super) fn look_at_rest(&mut self) -> Result<(), Stop> {
        cells::must_stand()?;
        let State::Resting { weigh, .. } = &mut self.state else {
            return Ok(());
        };
        let Some((_, reported)) = weigh.take_if(|(due, _)| Instant::now() >= *due) else {
            return Ok(());
        };
        let now = held_by_others(&[]);
        if now == reported {
            return Ok(());
        }
        self.output.answer(&Record::Held(now))
    }
}
