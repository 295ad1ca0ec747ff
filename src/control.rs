//! The controls that keep programs in their sandbox, by name: one table for `mcp-code-sandbox selftest`, the check at
//! the start, `ALLOW_WEAKER_SANDBOX` and `docs/threat-model.md`.

use std::fmt;

/// Something that stops hostile programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Control {
    /// The engine's runtime does what the server relies on.
    Runtime,
    /// Containers have the directories that the server means.
    Workspace,
    /// Programs have no privileges.
    Identity,
    /// The system call filter.
    Syscalls,
    /// Only `/data` and scratch directories can be written to.
    WritablePaths,
    /// Programs cannot control the kernel.
    KernelLevers,
    /// No secret and no socket is in reach.
    Secrets,
    /// PID 1 is closed to programs.
    PidOne,
    /// The resource limits are set.
    Limits,
    /// There is no network.
    NetworkOff,
    /// `network: true` leaves the host and other runs out of reach.
    NetworkOn,
    /// With a list of hosts, these are all that is reached.
    Egress,
    /// Processes have a limit.
    ForkBomb,
    /// Memory has a limit.
    Memory,
    /// What the kernel holds for sockets has a limit.
    SocketMemory,
    /// Processor time has a limit.
    Processor,
    /// One file has a limit.
    FileSize,
    /// A conversation's bytes have a limit.
    Disk,
    /// A conversation's files have a limit.
    Inodes,
    /// Output has a limit.
    OutputFlood,
    /// Time has a limit.
    Timeout,
    /// What a program leaves running ends with it.
    Background,
    /// Links and FIFOs lead nowhere.
    Links,
    /// A run finds nothing that an earlier one left.
    Residue,
    /// A conversation finds nothing of another.
    Conversations,
    /// A tenant finds nothing of another, though it knows how that calls its conversation.
    Tenants,
    /// Others are served while a program misbehaves.
    Neighbour,
    /// Others get what the kernel counts for a user or for the host.
    SharedTables,
}

/// How a control is described to people.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name in tables and in `ALLOW_WEAKER_SANDBOX`.
    pub name: &'static str,
    /// What is tried against it.
    pub tried: &'static str,
    /// What an operator can do when it fails.
    pub advice: &'static str,
}

impl Control {
    /// All of them, in the order in which they are tried.
    pub const ALL: &[Self] = &[
        Self::Runtime,
        Self::Workspace,
        Self::Identity,
        Self::Syscalls,
        Self::WritablePaths,
        Self::KernelLevers,
        Self::Secrets,
        Self::PidOne,
        Self::Limits,
        Self::NetworkOff,
        Self::NetworkOn,
        Self::Egress,
        Self::ForkBomb,
        Self::Memory,
        Self::SocketMemory,
        Self::Processor,
        Self::FileSize,
        Self::Disk,
        Self::Inodes,
        Self::OutputFlood,
        Self::Timeout,
        Self::Background,
        Self::Links,
        Self::Residue,
        Self::Conversations,
        Self::Tenants,
        Self::Neighbour,
        Self::SharedTables,
    ];

    /// The control of that name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|control| control.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// How it is described to people.
    pub const fn about(self) -> About {
        let (name, tried, advice) = match self {
            Self::Runtime
            | Self::Workspace
            | Self::Identity
            | Self::Syscalls
            | Self::WritablePaths
            | Self::KernelLevers
            | Self::Secrets
            | Self::PidOne
            | Self::Limits => self.about_the_container(),
            Self::NetworkOff | Self::NetworkOn | Self::Egress | Self::Links => {
                self.about_ways_out()
            }
            _ => self.about_running(),
        };
        About {
            name,
            tried,
            advice,
        }
    }

    /// How the engine set the container up.
    const fn about_the_container(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Runtime => (
                "runtime",
                "mount /data, list it, read and write in it, be killed and be gone",
                "set SANDBOX_RUNTIME to a runtime that `docker info` lists, or to nothing for the engine's own",
            ),
            Self::Workspace => (
                "workspace",
                "rename the directory that a container has as /data, and exchange files there, with another node too",
                "SANDBOX_VOLUME, or the claim of KUBE_VOLUME_CLAIM at KUBE_VOLUME_PATH, must be the volume that is mounted \
                 at SANDBOX_ROOT, and no more than that; without them SANDBOX_HOST_PATH must be the path of SANDBOX_ROOT \
                 on the engine's host",
            ),
            Self::Identity => (
                "identity",
                "be root, hold a capability, gain privileges, by setuid programs too",
                "the engine must drop all capabilities and apply no-new-privileges: update it, or look for a policy \
                 that changes containers",
            ),
            Self::Syscalls => (
                "syscalls",
                "user namespaces, mount, bpf, keyctl, io_uring, vsock, ptrace, mknod and more",
                "the engine must apply seccomp profiles: see `docker info`, and that the kernel has CONFIG_SECCOMP_FILTER",
            ),
            Self::WritablePaths => (
                "writable-paths",
                "make a file in every directory of the container",
                "the engine must mount the root file system read-only: update it, or look for a policy that changes \
                 containers",
            ),
            Self::KernelLevers => (
                "kernel-levers",
                "write to /proc, /sys, control groups and devices; read what is masked",
                "the engine must mask /proc and /sys and give no device: check that nothing makes containers privileged",
            ),
            Self::Secrets => (
                "secrets",
                "find the engine's socket, the server's environment, host directories, foreign processes",
                "nothing but /data may be mounted: look for plugins or policies that add mounts or variables to containers",
            ),
            Self::PidOne => (
                "pid-1",
                "read the memory and environment of PID 1, write to its output, set its limits",
                "the engine must apply seccomp profiles, and the kernel protect processes that are not dumpable; without, \
                 a program can forge how its own run ended",
            ),
            _ => (
                "limits",
                "read back the limits on memory, processes, processor, files",
                "the engine must be able to set limits: with a rootless engine, delegate the cgroup controllers cpu, \
                 memory and pids to its user",
            ),
        }
    }

    /// What leads out of the container.
    const fn about_ways_out(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::NetworkOff => (
                "network-off",
                "an interface, a route, a foreign socket, a name, raw packets",
                "the engine must honour network mode none: look for plugins that add networks to containers. On a cluster, \
                 nodes must let sandboxes unshare, or its network enforce policies from the first moment of a pod: see \
                 docs/kubernetes.md",
            ),
            Self::NetworkOn => (
                "network-on",
                "with network: true, reach the host, its gateway address and another run",
                "install the rules with `scripts/firewall.sh install` as root, followed by the addresses of RUN_DNS if it \
                 is set, or unset ALLOW_NETWORK",
            ),
            Self::Egress => (
                "egress",
                "with a list of hosts, reach another one: by name, by address, at an address that is not public",
                "the engine's runtime must let sockets out of sandboxes, as runc and crun do: see docs/network.md",
            ),
            _ => (
                "links",
                "get at another conversation through links and FIFOs in /data, by download and upload",
                "this is a mistake of the server's: report it as SECURITY.md says, and stop the server",
            ),
        }
    }

    /// What a program can take from others, or leave for them.
    const fn about_running(self) -> (&'static str, &'static str, &'static str) {
        const ENFORCE: &str = "the engine must enforce the limits that it accepts: with a rootless engine, delegate the \
                               cgroup controllers cpu, memory and pids to its user";
        const REPORT: &str = "this is a mistake of the server's: report it as SECURITY.md says";
        const SCRUB: &str = "set SANDBOX_REUSE=never; look for plugins or policies that add mounts to containers; if it \
                             stays, report it as SECURITY.md says";
        match self {
            Self::ForkBomb => ("fork-bomb", "start more processes than RUN_PIDS", ENFORCE),
            Self::Memory => ("memory", "take more memory than RUN_MEMORY", ENFORCE),
            Self::SocketMemory => (
                "socket-memory",
                "fill the buffers of thousands of sockets",
                "PID 1 must be able to read /proc/net: look for a policy that masks it; with version 2 of control groups \
                 the memory limit counts most of these buffers too",
            ),
            Self::Processor => (
                "processor",
                "compute on all cores at the same time",
                ENFORCE,
            ),
            Self::FileSize => (
                "file-size",
                "make a file larger than RUN_FILE_SIZE",
                ENFORCE,
            ),
            Self::Disk => (
                "disk",
                "write more than the quota in many files",
                "SANDBOX_ROOT must be on a file system that tells how much a file takes; one of its own bounds the worst \
                 case",
            ),
            Self::Inodes => (
                "inodes",
                "make more files than a conversation may have",
                REPORT,
            ),
            Self::OutputFlood => ("output-flood", "print without end", REPORT),
            Self::Timeout => (
                "timeout",
                "ignore every signal, in processes with sessions of their own",
                REPORT,
            ),
            Self::Background => ("background", "leave a daemon that goes on writing", REPORT),
            Self::Residue => (
                "residue",
                "leave files, processes, sockets and IPC for the next run",
                SCRUB,
            ),
            Self::Conversations => (
                "conversations",
                "find another conversation's files, key, processes and memory",
                SCRUB,
            ),
            Self::Tenants => (
                "tenants",
                "find the files, key, processes and memory of another tenant's conversation with the same id",
                SCRUB,
            ),
            Self::SharedTables => (
                "shared-tables",
                "take terminals, descriptors under way and the like while another conversation needs them",
                "the engine must apply seccomp profiles; give conversations users of their own with SANDBOX_UIDS",
            ),
            _ => (
                "neighbour",
                "get an answer in another conversation meanwhile",
                "give runs less with RUN_CPUS and MAX_CONCURRENT_RUNS, or the server a machine with more cores",
            ),
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_is_one_controls_and_leads_back_to_it() {
        let names: BTreeSet<_> = Control::ALL.iter().map(|control| control.name()).collect();
        assert_eq!(names.len(), Control::ALL.len());
        for control in Control::ALL {
            assert_eq!(Control::named(control.name()), Some(*control));
        }
        assert_eq!(Control::named("nonsense"), None);
    }
}
