//! How much a container may use, and each process in it.

use sandbox_init::variables;

/// How much a container may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerLimits {
    /// Cores, in billionths; `None` means no limit.
    pub nano_cpus: Option<i64>,
    /// Bytes of memory; nothing is swapped.
    pub memory: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Bytes of one file.
    pub file_size: u64,
}

impl ContainerLimits {
    /// What each process may use, by the names that engines and sandbox-init have for it.
    pub fn of_a_process(self) -> [(&'static str, u64); 3] {
        [
            // PID 1 gives programs a quarter of it.
            ("nofile", 4096),
            ("fsize", self.file_size),
            // Of one byte nothing is written, and none is handed to a program of the host's either, as none would be.
            ("core", 1),
        ]
    }

    /// The same as a variable of PID 1's, which sets it itself where an engine cannot, or does not.
    pub fn variable(self) -> String {
        let limits = self.of_a_process();
        let limits = limits.map(|(name, number)| format!("{name}={number}"));
        format!("{}={}", variables::LIMITS, limits.join(","))
    }
}
