//! Where the processes of a sandbox may write: a second safeguard behind the engine's mounts.
//!
//! PID 1 describes it once with Landlock, and puts it on every process that it starts, which hands it on to all that
//! come from it. PID 1 itself stays outside: it sets how the memory limit chooses, and the kernel protects what is
//! outside from the processes inside, as it protects a process that is not dumpable.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use landlock::{
    ABI, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    make_bitflags, path_beneath_rules,
};

/// The conversation's files under both their names. Other sandboxes of the conversation have them too.
const SHARED: [&str; 2] = ["/data", "/mnt/data"];

/// Scratch files, and devices, with shared memory among them. Message queues are opened by name without the path that
/// leads to them, so that `/dev` alone would not do.
const OWN: [&str; 3] = ["/tmp", "/dev", "/dev/mqueue"];

/// The restriction, ready to be put on a process. Empty where the kernel has no Landlock, or only its first version,
/// which would forbid moving files between directories.
#[derive(Debug)]
pub(crate) struct Confinement(Option<OwnedFd>);

impl Confinement {
    /// Making, opening for writing, truncating, moving and removing, below [`SHARED`] and [`OWN`] only. Device nodes
    /// cannot be made at all, and sockets not where others could connect to them: open files travel through sockets,
    /// and a later run of this sandbox could be changed through them from another one. The second version of Landlock
    /// lacks truncating, and none has modes, times and attributes.
    pub(crate) fn new() -> Result<Self, RulesetError> {
        let (needed, changes) = (AccessFs::from_write(ABI::V2), AccessFs::from_write(ABI::V3));
        let devices = make_bitflags!(AccessFs::{MakeChar | MakeBlock});
        let sockets = AccessFs::MakeSock;
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::SoftRequirement)
            .handle_access(needed)?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(changes)?
            .create()?
            .add_rules(path_beneath_rules(SHARED, changes & !devices & !sockets))?
            .add_rules(path_beneath_rules(OWN, changes & !devices))?;
        Ok(Self(ruleset.into()))
    }

    pub(crate) fn ruleset(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }
}
