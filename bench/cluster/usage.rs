//! Processor time, of the server and of the whole machine, which here has the nodes too.

use std::ops::Sub;
use std::time::Duration;

use super::server::Server;

/// What was taken until now, or in between.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) server: Duration,
    pub(crate) machine: Duration,
}

impl Usage {
    pub(crate) fn of(server: &Server) -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        let all = stat.lines().next().unwrap().split_whitespace().skip(1);
        let all: Vec<u64> = all.map(|ticks| ticks.parse().unwrap()).collect();
        // All but idle, waiting for disks and taken by others; guests are in the first two already.
        let busy = [0, 1, 2, 5, 6].map(|field| all[field]);
        Self {
            server: server.used(),
            machine: Duration::from_millis(busy.iter().sum::<u64>() * 10),
        }
    }

    /// What is more than an idle one takes in this time, of which five seconds were measured.
    pub(crate) fn without(self, idle: &Self, time: Duration) -> Self {
        let parts = time.as_secs_f64() / 5.0;
        Self {
            server: self.server.saturating_sub(idle.server.mul_f64(parts)),
            machine: self.machine.saturating_sub(idle.machine.mul_f64(parts)),
        }
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            server: self.server.saturating_sub(before.server),
            machine: self.machine.saturating_sub(before.machine),
        }
    }
}
