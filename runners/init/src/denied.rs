//! The system calls that programs are refused, whatever the engine's own filter lets through: what is in
//! `src/executor/docker/request/seccomp.json`, which says why. A test compares the two.

use libc::{ENOPROTOOPT, ENOSYS, EOPNOTSUPP, EPERM, EPROTONOSUPPORT, c_long};

/// A system call. Its name is what the engine's filter knows it by.
pub(crate) struct Call {
    #[cfg(test)]
    name: &'static str,
    pub(crate) number: c_long,
}

/// What becomes of some calls: the error of the first case that they are, or else they are let through.
pub(crate) struct Rule {
    pub(crate) calls: &'static [Call],
    pub(crate) cases: &'static [Case],
}

/// Calls to which all conditions apply fail with this error.
pub(crate) struct Case {
    pub(crate) conditions: &'static [Condition],
    pub(crate) error: i32,
}

/// The masked lower half of an argument, counted from 0, is within these bounds. The kernel ignores the upper halves of
/// all arguments that are looked at here.
pub(crate) struct Condition {
    pub(crate) argument: u32,
    pub(crate) mask: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

const fn within(argument: u32, from: u32, to: u32) -> Condition {
    Condition {
        argument,
        mask: u32::MAX,
        from,
        to,
    }
}

const fn is(argument: u32, value: u32) -> Condition {
    within(argument, value, value)
}

const fn above(argument: u32, value: u32) -> Condition {
    within(argument, value + 1, u32::MAX)
}

const fn has_any_of(argument: u32, bits: u32) -> Condition {
    Condition {
        argument,
        mask: bits,
        from: 1,
        to: u32::MAX,
    }
}

const fn when(conditions: &'static [Condition], error: i32) -> Case {
    Case { conditions, error }
}

const fn always(error: i32) -> Case {
    when(&[], error)
}

macro_rules! calls {
    ($($name:ident)*) => {
        &[$(Call { #[cfg(test)] name: stringify!($name), number: libc::$name }),*]
    };
}

/// Some C libraries do not know it.
const FCHMODAT2: Call = Call {
    #[cfg(test)]
    name: "SYS_fchmodat2",
    number: 452,
};

/// The modes of files that run as their owner or group.
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;
/// What makes a file: `O_CREAT`, and of `O_TMPFILE` what is not `O_DIRECTORY`.
const CREATING: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)).cast_unsigned();
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .cast_unsigned();
const F_SETSIG: u32 = 10;

/// Families of sockets.
const INET: u32 = 2;
const INET6: u32 = 10;
const NETLINK: u32 = 16;
/// The last protocol of them that programs have.
const UDP: u32 = 17;
/// Levels of options.
const SOL_SOCKET: u32 = 1;
const SOL_TCP: u32 = 6;

/// Those that are called most come first: each call is compared with all before it.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        calls: calls![SYS_openat],
        cases: &[when(
            &[has_any_of(2, CREATING), has_any_of(3, SET_ID)],
            EPERM,
        )],
    },
    #[cfg(target_arch = "x86_64")]
    Rule {
        calls: calls![SYS_open],
        cases: &[when(
            &[has_any_of(1, CREATING), has_any_of(2, SET_ID)],
            EPERM,
        )],
    },
    Rule {
        calls: calls![SYS_ioctl],
        cases: &[
            // All of btrfs; FS_IOC_FSSETXATTR; FS_IOC_SETFLAGS, twice; TIOCSTI and TIOCLINUX.
            when(
                &[Condition {
                    argument: 1,
                    mask: 0xff00,
                    from: 0x9400,
                    to: 0x9400,
                }],
                EOPNOTSUPP,
            ),
            when(&[is(1, 0x401c_5820)], EPERM),
            when(&[is(1, 0x4008_6602)], EPERM),
            when(&[is(1, 0x4004_6602)], EPERM),
            when(&[is(1, 0x5412)], EPERM),
            when(&[is(1, 0x541c)], EPERM),
        ],
    },
    Rule {
        calls: calls![SYS_fcntl],
        cases: &[when(&[is(1, F_SETSIG)], EPERM)],
    },
    Rule {
        calls: calls![SYS_clone],
        cases: &[when(&[has_any_of(0, NAMESPACES)], EPERM)],
    },
    Rule {
        calls: calls![SYS_prlimit64],
        cases: &[when(&[above(0, 0)], EPERM)],
    },
    Rule {
        calls: calls![SYS_socket],
        cases: SOCKETS,
    },
    Rule {
        calls: calls![SYS_socketpair],
        cases: SOCKETS.split_at(3).0,
    },
    Rule {
        calls: calls![SYS_setsockopt],
        cases: OPTIONS,
    },
    Rule {
        calls: calls![SYS_fchmod],
        cases: &[when(&[has_any_of(1, SET_ID)], EPERM)],
    },
    #[cfg(target_arch = "x86_64")]
    Rule {
        calls: calls![SYS_chmod SYS_creat SYS_mkdir],
        cases: &[when(&[has_any_of(1, SET_ID)], EPERM)],
    },
    Rule {
        calls: calls![SYS_fchmodat SYS_mkdirat],
        cases: &[when(&[has_any_of(2, SET_ID)], EPERM)],
    },
    Rule {
        calls: &[FCHMODAT2],
        cases: &[when(&[has_any_of(2, SET_ID)], EPERM)],
    },
    Rule {
        calls: calls![SYS_fallocate],
        cases: &[always(EOPNOTSUPP)],
    },
    Rule {
        calls: calls![SYS_clone3 SYS_openat2 SYS_io_setup SYS_msgget],
        cases: &[always(ENOSYS)],
    },
    Rule {
        calls: NEVER,
        cases: &[always(EPERM)],
    },
    #[cfg(target_arch = "x86_64")]
    Rule {
        calls: calls![
            SYS_ioperm SYS_iopl SYS_mknod SYS_modify_ldt
            SYS_sysfs SYS_uselib SYS_ustat SYS_vserver
        ],
        cases: &[always(EPERM)],
    },
];

/// Only Unix, both of IP, and netlink; then, of IP no protocol that is a kernel module of its own.
const SOCKETS: &[Case] = &[
    when(&[within(0, 3, INET6 - 1)], EPERM),
    when(&[within(0, INET6 + 1, NETLINK - 1)], EPERM),
    when(&[above(0, NETLINK)], EPERM),
    when(&[is(0, INET), above(2, UDP)], EPROTONOSUPPORT),
    when(&[is(0, INET6), above(2, UDP)], EPROTONOSUPPORT),
];

/// The sizes of buffers, which stay; what attaches filters; sending without copies; keys and modules of TCP.
const OPTIONS: &[Case] = &[
    when(&[is(1, SOL_SOCKET), within(2, 7, 8)], 0),
    when(&[is(1, SOL_SOCKET), is(2, 26)], ENOPROTOOPT),
    when(&[is(1, SOL_SOCKET), within(2, 50, 52)], ENOPROTOOPT),
    when(&[is(1, SOL_SOCKET), is(2, 60)], ENOPROTOOPT),
    when(&[is(1, SOL_TCP), is(2, 14)], ENOPROTOOPT),
    when(&[is(1, SOL_TCP), within(2, 31, 32)], ENOPROTOOPT),
    when(&[is(1, SOL_TCP), within(2, 38, 40)], ENOPROTOOPT),
];

const NEVER: &[Call] = calls![
    SYS_acct SYS_add_key SYS_bpf SYS_chroot SYS_clock_adjtime SYS_clock_settime SYS_delete_module
    SYS_fanotify_init SYS_fanotify_mark SYS_finit_module SYS_fsconfig SYS_fsmount SYS_fsopen SYS_fspick
    SYS_init_module SYS_io_uring_enter SYS_io_uring_register SYS_io_uring_setup SYS_kcmp SYS_kexec_file_load
    SYS_kexec_load SYS_keyctl SYS_lookup_dcookie SYS_mbind SYS_memfd_secret SYS_migrate_pages SYS_mknodat
    SYS_mount SYS_mount_setattr SYS_move_mount SYS_move_pages SYS_name_to_handle_at SYS_nfsservctl
    SYS_open_by_handle_at SYS_open_tree SYS_perf_event_open SYS_pidfd_getfd SYS_pivot_root SYS_process_madvise
    SYS_process_vm_readv SYS_process_vm_writev SYS_ptrace SYS_quotactl SYS_quotactl_fd SYS_reboot
    SYS_request_key SYS_set_mempolicy SYS_setdomainname SYS_sethostname SYS_setns SYS_settimeofday SYS_swapoff
    SYS_swapon SYS_syslog SYS_umount2 SYS_unshare SYS_userfaultfd SYS_vhangup
];

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::filter::Filter;

    /// Names of the engine's filter that have no number here, no longer any meaning, or a number above all that there
    /// are.
    const NOT_HERE: [&str; 9] = [
        "create_module",
        "file_setattr",
        "get_kernel_syms",
        "open_tree_attr",
        "query_module",
        "stime",
        "umount",
        "vm86",
        "vm86old",
    ];
    #[cfg(target_arch = "x86_64")]
    const OF_X86: [&str; 0] = [];
    #[cfg(not(target_arch = "x86_64"))]
    const OF_X86: [&str; 12] = [
        "chmod",
        "creat",
        "ioperm",
        "iopl",
        "mkdir",
        "mknod",
        "modify_ldt",
        "open",
        "sysfs",
        "uselib",
        "ustat",
        "vserver",
    ];

    /// The engine's filter, as far as it matters.
    #[derive(Deserialize)]
    struct Profile {
        syscalls: Vec<Engines>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Engines {
        names: Vec<String>,
        action: String,
        errno_ret: u32,
        #[serde(default)]
        args: Vec<Argument>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Argument {
        index: usize,
        value: u64,
        #[serde(default)]
        value_two: u64,
        op: String,
    }

    impl Argument {
        fn applies(&self, arguments: [u32; 4]) -> bool {
            let argument = u64::from(arguments[self.index]);
            match self.op.as_str() {
                "SCMP_CMP_MASKED_EQ" => argument & self.value == self.value_two,
                "SCMP_CMP_GE" => argument >= self.value,
                "SCMP_CMP_GT" => argument > self.value,
                "SCMP_CMP_NE" => argument != self.value,
                other => panic!("{other}"),
            }
        }

        /// Values at which it begins or ceases to apply.
        fn near(&self) -> impl Iterator<Item = u32> {
            let near = |value: u64| [value.wrapping_sub(1), value, value + 1];
            let values = [near(self.value), near(self.value_two)].into_iter();
            values
                .flatten()
                .map(|value| u32::try_from(value & 0xffff_ffff).unwrap())
        }
    }

    impl Engines {
        fn applies(&self, name: &str, arguments: [u32; 4]) -> bool {
            let mut conditions = self.args.iter();
            self.names.iter().any(|known| known == name)
                && conditions.all(|condition| condition.applies(arguments))
        }
    }

    fn profile() -> Profile {
        let profile = include_str!("../../../src/executor/docker/request/seccomp.json");
        serde_json::from_str(profile).unwrap()
    }

    /// The numbers of all calls in the rules, by their names.
    fn numbers() -> Vec<(&'static str, u32)> {
        let calls = RULES.iter().flat_map(|rule| rule.calls);
        calls
            .map(|call| {
                (
                    call.name.strip_prefix("SYS_").unwrap(),
                    u32::try_from(call.number).unwrap(),
                )
            })
            .collect()
    }

    /// All combinations of values near those that the engine's filter names for a call.
    fn tries(profile: &Profile, name: &str) -> Vec<[u32; 4]> {
        let mut tries = vec![[0; 4]];
        for index in 0..4 {
            let rules = profile
                .syscalls
                .iter()
                .filter(|rule| rule.names.iter().any(|known| known == name));
            let conditions = rules
                .flat_map(|rule| &rule.args)
                .filter(|argument| argument.index == index);
            let mut values: Vec<u32> = conditions.flat_map(Argument::near).chain([0]).collect();
            values.sort_unstable();
            values.dedup();
            let with = |value: u32| {
                move |mut arguments: [u32; 4]| {
                    arguments[index] = value;
                    arguments
                }
            };
            tries = values
                .iter()
                .flat_map(|value| tries.clone().into_iter().map(with(*value)))
                .collect();
        }
        tries
    }

    #[test]
    fn the_engine_and_pid_1_refuse_the_same_calls() {
        let (profile, numbers) = (profile(), numbers());
        for rule in &profile.syscalls {
            assert_eq!(rule.action, "SCMP_ACT_ERRNO");
            for name in &rule.names {
                let is_here = numbers.iter().any(|(known, _)| known == name);
                let is_elsewhere = NOT_HERE.iter().chain(&OF_X86).any(|known| known == name);
                assert!(is_here != is_elsewhere, "{name}");
            }
        }
        let filter = Filter::for_all();
        for number in 0..453 {
            let name = numbers.iter().find(|(_, known)| *known == number);
            let name = name.map_or("", |(name, _)| *name);
            for arguments in tries(&profile, name) {
                let rule = profile
                    .syscalls
                    .iter()
                    .find(|rule| rule.applies(name, arguments));
                let mut refused = rule.map(|rule| rule.errno_ret);
                if libc::c_long::from(number) == libc::SYS_landlock_add_rule {
                    refused = Some(EPERM.cast_unsigned());
                }
                let answer = filter.answer_to(number, arguments);
                let expected = refused.map_or(libc::SECCOMP_RET_ALLOW, |error| {
                    libc::SECCOMP_RET_ERRNO | error
                });
                assert_eq!(answer, expected, "{number} {name} {arguments:?}");
            }
        }
    }
}
