//! What a run has too much of on the disk, as a value, and the sentence for it.

use std::fmt;

use crate::units::{mebibytes, size_as_set};

/// A limit on files that a run has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskExcess {
    /// The conversation was far over its limits before it began.
    FarOver,
    /// The disk is nearly full, and it has taken most.
    ServerDisk,
    /// There are more files than this, or folders too deep to count.
    Files { limit: u64 },
    /// Files take more than the quota, `deleted` of it without a name.
    Bytes {
        taken: u64,
        deleted: u64,
        quota: u64,
    },
    /// What a kernel has open of deleted files takes more than is left of the quota.
    Held { held: u64, named: u64, quota: u64 },
}

impl fmt::Display for DiskExcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::FarOver => formatter.write_str(
                "The program was not started because the conversation's files in /data are far over its limits, or in \
                 folders too deep to count: delete the conversation, or start a new one.",
            ),
            Self::ServerDisk => formatter.write_str(
                "The program was stopped because the server's disk is nearly full, and it had taken most since its \
                 start: write less, or ask the operator for room.",
            ),
            Self::Files { limit } => write!(
                formatter,
                "The program was stopped because /data holds more than {limit} files, or folders in folders too deep to \
                 count."
            ),
            Self::Bytes {
                taken,
                deleted,
                quota,
            } => {
                let (taken, quota) = (mebibytes(taken), size_as_set(quota));
                write!(
                    formatter,
                    "The program was stopped because its files take {taken}"
                )?;
                if deleted > 0 {
                    let deleted = mebibytes(deleted);
                    write!(
                        formatter,
                        " ({deleted} of it in files that were deleted while a stateful kernel has them open: close them \
                         there, or run once with restart: true)"
                    )?;
                }
                write!(
                    formatter,
                    ", the limit for a conversation is {quota}: delete files in /data, or start a new conversation."
                )
            }
            Self::Held { held, named, quota } => {
                let (held, named, quota) = (mebibytes(held), mebibytes(named), size_as_set(quota));
                write!(
                    formatter,
                    "Files that were deleted but are still open in the kernel, or may be on their way through its \
                     sockets, take {held}, which with the {named} of files in /data is more than the limit for a \
                     conversation of {quota}: close files that you delete."
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_excess_says_what_to_do() {
        let quota = 64 << 20;
        let all = [
            DiskExcess::FarOver,
            DiskExcess::ServerDisk,
            DiskExcess::Files { limit: 5_000 },
            DiskExcess::Bytes {
                taken: 70 << 20,
                deleted: 0,
                quota,
            },
            DiskExcess::Bytes {
                taken: 70 << 20,
                deleted: 8 << 20,
                quota,
            },
            DiskExcess::Held {
                held: 60 << 20,
                named: 10 << 20,
                quota,
            },
        ];
        insta::assert_snapshot!(all.map(|one| one.to_string()).join("\n"), @"
        The program was not started because the conversation's files in /data are far over its limits, or in folders too deep to count: delete the conversation, or start a new one.
        The program was stopped because the server's disk is nearly full, and it had taken most since its start: write less, or ask the operator for room.
        The program was stopped because /data holds more than 5000 files, or folders in folders too deep to count.
        The program was stopped because its files take 70 MiB, the limit for a conversation is 64 MiB: delete files in /data, or start a new conversation.
        The program was stopped because its files take 70 MiB (8 MiB of it in files that were deleted while a stateful kernel has them open: close them there, or run once with restart: true), the limit for a conversation is 64 MiB: delete files in /data, or start a new conversation.
        Files that were deleted but are still open in the kernel, or may be on their way through its sockets, take 60 MiB, which with the 10 MiB of files in /data is more than the limit for a conversation of 64 MiB: close files that you delete.
        ");
    }
}
