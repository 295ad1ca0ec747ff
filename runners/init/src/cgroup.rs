//! What the cgroup of the sandbox counts, in both layouts of `/sys/fs/cgroup`.
//!
//! The files are opened once and read again for each run. On a host or in an image where one is missing, its number is
//! unknown, and nothing else changes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// Where a number is: file, the word before it in that file (empty when the file is the number), and its unit.
type Place = (&'static str, &'static str, u64);

const CPU_NANOS: [Place; 3] = [
    ("cpu.stat", "usage_usec", 1000),
    ("cpuacct/cpuacct.usage", "", 1),
    ("cpu,cpuacct/cpuacct.usage", "", 1),
];
const PEAK_BYTES: [Place; 2] = [
    ("memory.peak", "", 1),
    ("memory/memory.max_usage_in_bytes", "", 1),
];
const OOM_KILLS: [Place; 2] = [
    ("memory.events", "oom_kill", 1),
    ("memory/memory.oom_control", "oom_kill", 1),
];
const PIDS_DENIED: [Place; 2] = [("pids.events", "max", 1), ("pids/pids.events", "max", 1)];

/// The open counters.
#[derive(Debug)]
pub(crate) struct Cgroup {
    cpu: Option<Counter>,
    peak: Option<Counter>,
    oom_kills: Option<Counter>,
    pids_denied: Option<Counter>,
}

/// The counters at one moment.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu: Option<Duration>,
    pub(crate) peak: Option<u64>,
    pub(crate) oom_kills: Option<u64>,
    pub(crate) pids_denied: Option<u64>,
}

impl Cgroup {
    pub(crate) fn open(root: &Path) -> Self {
        Self {
            cpu: Counter::open(root, &CPU_NANOS),
            peak: Counter::open(root, &PEAK_BYTES),
            oom_kills: Counter::open(root, &OOM_KILLS),
            pids_denied: Counter::open(root, &PIDS_DENIED),
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        let read = |counter: &Option<Counter>| counter.as_ref().and_then(Counter::read);
        Usage {
            cpu: read(&self.cpu).map(Duration::from_nanos),
            peak: read(&self.peak),
            oom_kills: read(&self.oom_kills),
            pids_denied: read(&self.pids_denied),
        }
    }
}

#[derive(Debug)]
struct Counter {
    file: File,
    word: &'static str,
    unit: u64,
}

impl Counter {
    fn open(root: &Path, places: &[Place]) -> Option<Self> {
        places.iter().find_map(|&(path, word, unit)| {
            let file = File::open(root.join(path)).ok()?;
            Some(Self { file, word, unit })
        })
    }

    fn read(&self) -> Option<u64> {
        let mut buffer = [0; 4096];
        let length = self.file.read_at(&mut buffer, 0).ok()?;
        let text = str::from_utf8(&buffer[..length]).ok()?;
        number_after(text, self.word)?.checked_mul(self.unit)
    }
}

fn number_after(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let number = line.strip_prefix(word)?;
        let number = if word.is_empty() {
            number
        } else {
            number.strip_prefix(' ')?
        };
        number.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_layouts_are_read() {
        let layouts: [&[(&str, &str)]; 2] = [
            &[
                ("cpu.stat", "usage_usec 7000\nuser_usec 1\n"),
                ("memory.peak", "4096\n"),
                (
                    "memory.events",
                    "low 9\noom 3\noom_kill 2\noom_group_kill 0\n",
                ),
                ("pids.events", "max 5\n"),
            ],
            &[
                ("cpuacct/cpuacct.usage", "7000000\n"),
                ("memory/memory.max_usage_in_bytes", "4096\n"),
                (
                    "memory/memory.oom_control",
                    "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
                ),
                ("pids/pids.events", "max 5\n"),
            ],
        ];
        for layout in layouts {
            let root = tempfile::tempdir().unwrap();
            for (path, text) in layout {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let usage = Cgroup::open(root.path()).usage();
            assert_eq!(usage.cpu, Some(Duration::from_millis(7)));
            assert_eq!(usage.peak, Some(4096));
            assert_eq!(usage.oom_kills, Some(2));
            assert_eq!(usage.pids_denied, Some(5));
        }
    }

    #[test]
    fn what_is_missing_is_unknown() {
        let root = tempfile::tempdir().unwrap();
        let usage = Cgroup::open(root.path()).usage();
        assert!(usage.cpu.is_none() && usage.peak.is_none() && usage.oom_kills.is_none());
    }
}
