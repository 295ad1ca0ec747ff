//! Which system calls there are, and which may not name a process that outlives the run.
//!
//! The engine's filter goes by names, and ignores those that its library does not know, however new the kernel is: what
//! is newer fails here as on an older kernel. A call that changes *another* process is refused by the number of that
//! process: any process of the same user could otherwise set the priority, the processors or the limits of PID 1 and of
//! a driver that stays, and so of every later run. A program's own processes have other numbers, or say 0.

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO, sock_filter,
};

/// The last system call that there is here: `fchmodat2`, of Linux 6.6. From 424 on, the numbers are the same on all
/// machines.
const LAST_CALL: u32 = 452;

/// Calls that take the number of a process first.
const BY_PROCESS: [libc::c_long; 6] = [
    libc::SYS_sched_setattr,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setaffinity,
    libc::SYS_prlimit64,
    libc::SYS_pidfd_open,
];

/// Calls that first say what the number after that is of, and the word for all processes of a user.
const BY_KIND: [(libc::c_long, u32); 2] = [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Calls about other processes that no program needs; and the one with which a set of Landlock's rules keeps files,
/// deleted ones too, where nobody sees them. PID 1 has made its own set by then.
const NEVER: [libc::c_long; 4] = [
    libc::SYS_landlock_add_rule,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
];

/// Calls that put another filter on a process, and how they say so. They fail as on a kernel without filters.
const MORE_FILTERS: [(libc::c_long, u32); 2] = [
    (libc::SYS_prctl, libc::PR_SET_SECCOMP.cast_unsigned()),
    (libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER),
];

/// Where a filter finds the number of the call and the lower half of its first two arguments.
const NUMBER: u32 = 0;
const FIRST: u32 = 16;
const SECOND: u32 = 24;

/// Longer than the filters made here.
const LENGTH: usize = 96;

/// A filter, made without memory from the heap: it is also made between fork and exec.
pub(crate) struct Filter {
    code: [sock_filter; LENGTH],
    length: usize,
}

impl Filter {
    /// For all processes: no newer calls, and none that changes PID 1.
    pub(crate) fn for_all() -> Self {
        let mut filter = Self::new();
        filter.load(NUMBER);
        filter.jump(BPF_JGT, LAST_CALL, 0, 1);
        filter.answer(SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned());
        for call in NEVER {
            filter.jump(BPF_JEQ, number(call), 0, 1);
            filter.refuse();
        }
        filter.spare(1, 1);
        filter
    }

    /// Lets everything through.
    pub(crate) fn none() -> Self {
        let mut filter = Self::new();
        filter.load(NUMBER);
        filter.answer(SECCOMP_RET_ALLOW);
        filter
    }

    /// For a driver and all that comes from it: none that changes the processes with these numbers.
    pub(crate) fn sparing(first: u32, last: u32) -> Self {
        let mut filter = Self::new();
        filter.load(NUMBER);
        filter.spare(first, last);
        filter
    }

    /// For a process that PID 1 starts and all that comes from it: the last one. Filters are kept as machine code, for
    /// which a host has little room: a program that makes many keeps others from starting at all.
    pub(crate) fn last(mut self) -> Self {
        // Without its answer, which comes at the end.
        self.length = self.length.saturating_sub(1);
        for (call, operation) in MORE_FILTERS {
            self.jump(BPF_JEQ, number(call), 0, 4);
            self.load(FIRST);
            self.jump(BPF_JEQ, operation, 0, 1);
            self.answer(SECCOMP_RET_ERRNO | libc::EINVAL.cast_unsigned());
            self.answer(SECCOMP_RET_ALLOW);
        }
        self.answer(SECCOMP_RET_ALLOW);
        self
    }

    pub(crate) fn code(&mut self) -> &mut [sock_filter] {
        &mut self.code[..self.length]
    }

    fn new() -> Self {
        let nothing = sock_filter {
            code: 0,
            jt: 0,
            jf: 0,
            k: 0,
        };
        Self {
            code: [nothing; LENGTH],
            length: 0,
        }
    }

    fn spare(&mut self, first: u32, last: u32) {
        for call in BY_PROCESS {
            self.jump(BPF_JEQ, number(call), 0, 5);
            self.load(FIRST);
            self.refuse_between(first, last);
        }
        for (call, user) in BY_KIND {
            self.jump(BPF_JEQ, number(call), 0, 8);
            self.load(FIRST);
            self.jump(BPF_JEQ, user, 0, 1);
            self.refuse();
            self.load(SECOND);
            self.refuse_between(first, last);
        }
        self.answer(SECCOMP_RET_ALLOW);
    }

    /// Four steps: ends with an answer either way.
    fn refuse_between(&mut self, first: u32, last: u32) {
        self.jump(BPF_JGE, first, 0, 2);
        self.jump(BPF_JGT, last, 1, 0);
        self.refuse();
        self.answer(SECCOMP_RET_ALLOW);
    }

    fn refuse(&mut self) {
        self.answer(SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned());
    }

    fn load(&mut self, offset: u32) {
        self.push(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
    }

    fn jump(&mut self, test: u32, value: u32, yes: u8, no: u8) {
        self.push(BPF_JMP | test | BPF_K, value, yes, no);
    }

    fn answer(&mut self, action: u32) {
        self.push(BPF_RET | BPF_K, action, 0, 0);
    }

    fn push(&mut self, code: u32, k: u32, jt: u8, jf: u8) {
        // All codes have sixteen bits.
        let code = u16::try_from(code).unwrap_or(u16::MAX);
        if let Some(place) = self.code.get_mut(self.length) {
            *place = sock_filter { code, jt, jf, k };
            self.length += 1;
        }
    }
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_whole() {
        for mut filter in [
            Filter::for_all(),
            Filter::none().last(),
            Filter::sparing(7, 9).last(),
        ] {
            let code = filter.code();
            assert!(code.len() < LENGTH);
            let last = code.last().unwrap();
            assert_eq!((last.code, last.k), (0x06, SECCOMP_RET_ALLOW));
            for (at, step) in code.iter().enumerate() {
                let far = usize::from(step.jt.max(step.jf));
                assert!(at + far < code.len(), "{at}");
            }
        }
    }
}
