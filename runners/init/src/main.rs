//! `sandbox-init`: PID 1 of every sandbox. The contract is `runners/PROTOCOL.md`.
//!
//! One thread, one loop, one `poll`. It waits for frames on standard input, for signals, and for slow readers of what
//! it writes; nothing else in it can block, but for a quarter of a second when it is asked to try a network. Its arguments are the image's own command.
//!
//! ```text
//!               park                      ready
//!  Waiting ───────────────▶ Parking ────────────────▶ Waiting
//!     │                        ▲                   with a run process
//!     │ run                    │ scrubbed
//!     ▼     ended, reuse       │
//!  Running ────────────────▶ Dirty
//!     │
//!     └── ended, no reuse: exit, and the kernel ends every other process
//!
//!                   cell                    done, all others stopped
//!  Waiting with a run process ──▶ Working ──────────────────────────▶ Resting
//!                                  │   ▲               cell              │
//!                                  │   └─────────────────────────────────┘
//!                                  └── its process ended: exit
//! ```
//!
//! Programs write to pipes of their own. What they wrote, and what became of them, goes to the server as messages, on a
//! stream that is in this process and nowhere else: it is not dumpable, and every child is replaced by an exec, which
//! closes the stream, before it runs anything.

#![expect(
    clippy::disallowed_types,
    reason = "there is no tokio here, and tests of PID 1 use real time"
)]

mod cgroup;
mod confine;
mod denied;
mod dial;
mod driver;
mod environment;
mod feed;
mod filter;
mod freeze;
mod hatch;
mod held;
mod init;
mod kernel;
mod limits;
mod network;
mod output;
mod processes;
mod run;
mod scrub;
mod streams;
mod sys;
mod uncounted;

use std::io;
use std::process::ExitCode;

use landlock::RulesetError;
use rustix::process::{DumpableBehavior, getpid, set_dumpable_behavior};
use rustix::thread::set_no_new_privs;
use sandbox_init::{FrameError, variables};

use crate::filter::Filter;
use crate::hatch::Hatch;
use crate::init::Init;
use crate::limits::LimitsError;
use crate::network::NetworkError;

/// Why the sandbox ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    /// The server is gone or asks for the end, or no frame has come for too long.
    #[error("no longer needed")]
    Gone,
    /// The one run is over.
    #[error("done")]
    Done,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a frame that a kernel does not take")]
    NotForKernel,
    #[error("a system call failed: {0}")]
    System(#[from] io::Error),
    #[error("the kernel does not confine programs: {0}")]
    Unconfined(#[from] RulesetError),
    #[error("only as PID 1 of a container: it kills every other process")]
    NotPid1,
    #[error(transparent)]
    Limits(#[from] LimitsError),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error("not ready: {0}")]
    NotReady(String),
    #[error("not clean: {0}")]
    NotClean(String),
}

impl Stop {
    fn code(&self) -> u8 {
        match self {
            Self::Gone | Self::Done => 0,
            Self::Frame(_) | Self::NotForKernel => 70,
            Self::NotReady(_) => 71,
            Self::NotClean(_) => 72,
            Self::System(_)
            | Self::Unconfined(_)
            | Self::NotPid1
            | Self::Limits(_)
            | Self::Network(_) => 73,
        }
    }
}

fn main() -> ExitCode {
    let stop = match prepare() {
        Ok(mut init) => {
            let stop = init.serve();
            if stop.code() != 0 {
                init.complain(&stop);
            }
            stop
        }
        Err(stop) => {
            let text = format!("sandbox-init: {stop}\n");
            let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
            stop
        }
    };
    ExitCode::from(stop.code())
}

/// Closes this process to others before it knows anything, and before there are any.
fn prepare() -> Result<Init, Stop> {
    if getpid().as_raw_nonzero().get() != 1 {
        return Err(Stop::NotPid1);
    }
    // First: who is closed to others cannot say who it is in a user namespace of its own.
    let is_apart = network::leave_if_told(&environment::told(variables::NO_NETWORK))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(io::Error::from)?;
    sys::close_on_exec();
    limits::set(&environment::told(variables::LIMITS), is_apart)?;
    let signals = sys::signals()?;
    // The engine has set it; neither Landlock nor another filter can be used without.
    set_no_new_privs(true).map_err(io::Error::from)?;
    let hatch = Hatch::open();
    let init = Init::new(signals, hatch, std::env::args_os().skip(1).collect())?;
    // Last: it refuses what PID 1 has done by now.
    sys::restrict(&mut Filter::for_all())?;
    Ok(init)
}
