//! How a run process comes to be parked, and what the server is told then.

use std::time::{Duration, Instant};

use rustix::process::Pid;
use sandbox_init::{Ready, Record};

use super::{Answer, IDLE, Init, PARKING, State};
use crate::dial::Dial;
use crate::driver::Driver;
use crate::{Stop, network};

impl Init {
    /// Ends the driver, if there is one, with its helpers, what it has parked, and all that they have loaded.
    pub(super) fn remove_driver(&mut self) -> Result<(), String> {
        if self.driver.take().is_none() {
            return Ok(());
        }
        // What ends now was wanted no more.
        self.state = State::Waiting {
            parked: None,
            until: None,
        };
        self.scrubber.scrub(&[])
    }

    /// Has a run process parked, if the image can do that.
    pub(super) fn park(&mut self, answer: Answer) -> Result<bool, Stop> {
        let started = match (&self.park, &self.driver) {
            (Some(park), None) if !park.driver.is_empty() => {
                match Driver::start(park, &self.confinement) {
                    Ok(driver) => {
                        self.driver = Some(driver);
                        Ok(true)
                    }
                    Err(error) => Err(format!("the driver cannot be started: {error}")),
                }
            }
            (_, Some(driver)) => driver.park_another().map(|()| true),
            _ => Ok(false),
        };
        match started {
            Ok(false) => self.parked(answer, Ok(None)),
            Err(reason) => self.parked(answer, Err(reason)),
            Ok(true) => {
                let until = Instant::now() + PARKING;
                self.state = State::Parking { answer, until };
                Ok(true)
            }
        }
    }

    /// Answers the frame that asked for a run process, then waits for the next one or stops.
    pub(super) fn parked(
        &mut self,
        answer: Answer,
        verdict: Result<Option<Pid>, String>,
    ) -> Result<bool, Stop> {
        self.state = State::Waiting {
            parked: verdict.clone().ok().flatten(),
            until: self.idle_until(),
        };
        let verdict = verdict.map(drop);
        let (record, stop): (_, fn(String) -> Stop) = match answer {
            Answer::Ready => {
                let ready = verdict.clone().map(|()| self.look_at_network());
                (Record::Ready(ready), Stop::NotReady)
            }
            Answer::Clean => (Record::Clean(verdict.clone()), Stop::NotClean),
        };
        self.output.answer(&record)?;
        verdict.map(|()| true).map_err(stop)
    }

    /// What is known of the network, when what is being tried there has had its time.
    fn look_at_network(&mut self) -> Ready {
        Ready {
            network: Some(network::look()),
            reached: self.dial.take().and_then(Dial::finish),
        }
    }

    /// When the sandbox ends by itself if no frame comes.
    pub(super) fn idle_until(&self) -> Option<Instant> {
        let park = self.park.as_ref();
        let idle = park.map_or(IDLE, |park| Duration::from_millis(park.idle_ms));
        Instant::now().checked_add(idle)
    }
}
