//! Why a kernel is gone, in the words that the next run gets.

use std::collections::{BTreeMap, VecDeque};

use strum::{IntoStaticStr, VariantNames};

use super::key::KernelKey;

/// How many lost kernels are remembered: the oldest are forgotten first.
const REMEMBERED: usize = 1000;

/// Why a kernel, and the state in it, is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum KernelLoss {
    /// Nobody used it.
    Unused,
    /// Another one needed its place.
    Evicted,
    /// The memory limit killed it.
    Memory,
    /// It took too long and did not stop in time when it was interrupted.
    Timeout,
    /// It was cancelled, or printed without end, and did not stop in time when it was interrupted.
    #[strum(serialize = "deaf")]
    IgnoredInterrupt,
    /// Its files took too much.
    Disk,
    /// What it had open of deleted files took too much.
    Held,
    /// The disk was nearly full, and it had deleted files open.
    Floor,
    /// It ended by itself, with this exit code as a shell would give it.
    Ended(i32),
    /// Its container, or the engine, is gone.
    Gone,
    /// Its image was replaced.
    Replaced,
    /// Its conversation was deleted.
    Deleted,
    /// The run itself wanted a new one.
    Restarted,
}

impl KernelLoss {
    /// The sentence in answers.
    pub fn sentence(self) -> String {
        let why = match self {
            Self::Unused => "the kernel was not used for too long",
            Self::Evicted => "another conversation needed the kernel's place",
            Self::Memory => "the memory limit killed the kernel",
            Self::Timeout => {
                "the run before took too long and did not stop in time when it was interrupted"
            }
            Self::IgnoredInterrupt => "the run before did not stop in time when it was interrupted",
            Self::Disk => "the run before was stopped because its files took too much",
            Self::Held => {
                "files that were deleted but still open in the kernel, or on their way through its sockets, took more than the conversation may have"
            }
            Self::Floor => {
                "the server's disk was nearly full, and the kernel had files open that were deleted"
            }
            Self::Ended(code) => {
                return format!(
                    "The kernel ended in the run before, with exit code {code}: variables, functions and imports are \
                     lost, files in /data are not."
                );
            }
            Self::Gone => "the kernel's sandbox was lost",
            Self::Replaced => "the language's image was replaced",
            Self::Deleted => {
                return "The conversation was deleted, and its kernel with it.".to_owned();
            }
            Self::Restarted => "a new kernel was asked for",
        };
        let mut why = why.to_owned();
        why[..1].make_ascii_uppercase();
        format!("{why}: variables, functions and imports are lost, files in /data are not.")
    }
}

/// What became of kernels that nobody has asked for since.
#[derive(Debug, Default)]
pub(super) struct Memory {
    lost: BTreeMap<KernelKey, KernelLoss>,
    order: VecDeque<KernelKey>,
}

impl Memory {
    pub(super) fn remember(&mut self, key: KernelKey, why: KernelLoss) {
        if self.lost.insert(key.clone(), why).is_some() {
            self.order.retain(|other| *other != key);
        }
        self.order.push_back(key);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.lost.remove(&oldest);
        }
    }

    pub(super) fn take(&mut self, key: &KernelKey) -> Option<KernelLoss> {
        let why = self.lost.remove(key)?;
        self.order.retain(|other| other != key);
        Some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::books::tests::key;

    #[test]
    fn memory_is_bounded_and_told_once() {
        let mut memory = Memory::default();
        memory.remember(key(0), KernelLoss::Unused);
        memory.remember(key(0), KernelLoss::Memory);
        assert_eq!(memory.take(&key(0)), Some(KernelLoss::Memory));
        assert_eq!(memory.take(&key(0)), None);
        for number in 0..=REMEMBERED {
            memory.remember(key(number), KernelLoss::Gone);
        }
        assert_eq!(memory.take(&key(0)), None);
        assert_eq!(memory.take(&key(1)), Some(KernelLoss::Gone));
        assert_eq!(memory.order.len(), memory.lost.len());
    }

    #[test]
    fn sentences_are_for_a_model() {
        insta::assert_snapshot!(KernelLoss::Unused.sentence(), @"The kernel was not used for too long: variables, functions and imports are lost, files in /data are not.");
        insta::assert_snapshot!(KernelLoss::Held.sentence(), @"Files that were deleted but still open in the kernel, or on their way through its sockets, took more than the conversation may have: variables, functions and imports are lost, files in /data are not.");
        insta::assert_snapshot!(KernelLoss::Floor.sentence(), @"The server's disk was nearly full, and the kernel had files open that were deleted: variables, functions and imports are lost, files in /data are not.");
        insta::assert_snapshot!(KernelLoss::Ended(3).sentence(), @"The kernel ended in the run before, with exit code 3: variables, functions and imports are lost, files in /data are not.");
    }
}
