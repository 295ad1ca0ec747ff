//! Why a kernel is gone, in the words that the next run gets.

use std::time::Duration;

use strum::{IntoStaticStr, VariantNames};

use crate::recent::Bounds;

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
    /// The engine would end its container in another run.
    Aged,
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
            Self::Aged => "the kernel had lived as long as one may on this server's cluster",
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

/// What is remembered of kernels that nobody has asked for since.
pub(super) const REMEMBERED: Bounds = Bounds {
    age: Duration::MAX,
    count: 1000,
    bytes: usize::MAX,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_for_a_model() {
        insta::assert_snapshot!(KernelLoss::Unused.sentence(), @"The kernel was not used for too long: variables, functions and imports are lost, files in /data are not.");
        insta::assert_snapshot!(KernelLoss::Held.sentence(), @"Files that were deleted but still open in the kernel, or on their way through its sockets, took more than the conversation may have: variables, functions and imports are lost, files in /data are not.");
        insta::assert_snapshot!(KernelLoss::Floor.sentence(), @"The server's disk was nearly full, and the kernel had files open that were deleted: variables, functions and imports are lost, files in /data are not.");
        insta::assert_snapshot!(KernelLoss::Ended(3).sentence(), @"The kernel ended in the run before, with exit code 3: variables, functions and imports are lost, files in /data are not.");
    }
}
