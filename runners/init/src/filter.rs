//! Which system calls there are, and which may not name a process that outlives the run.
//!
//! What the engine's filter refuses is refused here once more ([`crate::denied`]), so that it is with every engine. An
//! engine goes by names, and ignores those that its library does not know, however new the kernel is: what is newer
//! fails here as on an older kernel. A call that changes *another* process is refused by the number of that
//! process: any process of the same user could otherwise set the priority, the processors or the limits of PID 1 and of
//! a driver that stays, and so of every later run. A program's own processes have other numbers, or say 0.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP, BPF_K, BPF_LD, BPF_RET,
    BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_THREAD, sock_filter,
};

use crate::denied::{Case, RULES, Rule};

/// How the kernel names this machine type, which says what the numbers mean.
#[cfg(target_arch = "x86_64")]
const MACHINE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const MACHINE: u32 = 0xc000_00b7;

/// The last system call that there is here: `fchmodat2`, of Linux 6.6. From 424 on, the numbers are the same on all
/// machines.
const LAST_CALL: u32 = 452;

/// Calls that take the number of a process first.
const BY_PROCESS: [libc::c_long; 5] = [
    libc::SYS_sched_setattr,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setaffinity,
    libc::SYS_pidfd_open,
];

/// Calls that first say what the number after that is of, and the word for all processes of a user.
const BY_KIND: [(libc::c_long, u32); 2] = [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// With it a set of Landlock's rules keeps files, deleted ones too, where nobody sees them. PID 1 has made its own set
/// by then.
const ADD_RULE: libc::c_long = libc::SYS_landlock_add_rule;

/// Calls that put another filter on a process, and how they say so. They fail as on a kernel without filters.
const MORE_FILTERS: [(libc::c_long, u32); 2] = [
    (libc::SYS_prctl, libc::PR_SET_SECCOMP.cast_unsigned()),
    (libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER),
];

/// Where a filter finds the number of the call, the machine type by which it was called, and the lower half of its
/// first two arguments.
const NUMBER: u32 = 0;
const CALLED_AS: u32 = 4;
const FIRST: u32 = argument(0);
const SECOND: u32 = argument(1);

/// Steps of a condition.
const CONDITION: usize = 4;

/// Longer than the filters made here.
const LENGTH: usize = 384;

/// A filter, made without memory from the heap: it is also made between fork and exec.
pub(crate) struct Filter {
    code: [sock_filter; LENGTH],
    length: usize,
}

impl Filter {
    /// For all processes: none of the denied calls, no newer ones, and none that changes PID 1. By another machine
    /// type's numbers there are none at all.
    pub(crate) fn for_all() -> Self {
        let mut filter = Self::new();
        filter.load(CALLED_AS);
        filter.jump(BPF_JEQ, MACHINE, 1, 0);
        filter.answer(SECCOMP_RET_KILL_THREAD);
        filter.load(NUMBER);
        filter.jump(BPF_JGT, LAST_CALL, 0, 1);
        filter.fail(libc::ENOSYS);
        for rule in RULES {
            filter.rule(rule);
        }
        filter.jump(BPF_JEQ, number(ADD_RULE), 0, 1);
        filter.fail(libc::EPERM);
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
            self.fail(libc::EINVAL);
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

    /// Ends with an answer for the calls of a rule, and goes on with the number of any other.
    fn rule(&mut self, rule: &Rule) {
        // Past the jump that the others take.
        let mut to_cases = rule.calls.len();
        for call in rule.calls {
            self.jump(BPF_JEQ, number(call.number), steps(to_cases), 0);
            to_cases -= 1;
        }
        let over = self.length;
        self.jump(BPF_JA, 0, 0, 0);
        for case in rule.cases {
            self.case(case);
        }
        self.answer(SECCOMP_RET_ALLOW);
        let length = self.length.saturating_sub(over + 1);
        self.code[over].k = u32::try_from(length).unwrap_or(u32::MAX);
    }

    /// Ends with an answer if its conditions apply, and goes on behind it if not.
    fn case(&mut self, case: &Case) {
        let end = self.length + case.conditions.len() * CONDITION + 1;
        for condition in case.conditions {
            self.load(argument(condition.argument));
            self.push(BPF_ALU | BPF_AND | BPF_K, condition.mask, 0, 0);
            self.jump(BPF_JGE, condition.from, 0, steps(end - self.length - 1));
            self.jump(BPF_JGT, condition.to, steps(end - self.length - 1), 0);
        }
        self.fail(case.error);
    }

    fn refuse(&mut self) {
        self.fail(libc::EPERM);
    }

    fn fail(&mut self, error: i32) {
        self.answer(SECCOMP_RET_ERRNO | error.cast_unsigned());
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

/// Where the lower half of an argument is.
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// A jump has eight bits. None of those here is longer.
fn steps(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
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
                assert!(at + far < code.len() && far < 255, "{at}");
            }
        }
    }

    impl Filter {
        /// What the kernel would read from it.
        pub(crate) fn answer_to(&self, number: u32, arguments: [u32; 4]) -> u32 {
            let (mut at, mut value) = (0, 0);
            loop {
                let step = self.code[at];
                let (code, k) = (u32::from(step.code), step.k);
                let jump = |test: bool| usize::from(if test { step.jt } else { step.jf });
                at += 1;
                match code {
                    _ if code == BPF_LD | BPF_W | BPF_ABS => {
                        value = match k {
                            NUMBER => number,
                            CALLED_AS => MACHINE,
                            _ => arguments[(k as usize - 16) / 8],
                        }
                    }
                    _ if code == BPF_ALU | BPF_AND | BPF_K => value &= k,
                    _ if code == BPF_JMP | BPF_JA => at += k as usize,
                    _ if code == BPF_JMP | BPF_JEQ | BPF_K => at += jump(value == k),
                    _ if code == BPF_JMP | BPF_JGE | BPF_K => at += jump(value >= k),
                    _ if code == BPF_JMP | BPF_JGT | BPF_K => at += jump(value > k),
                    _ if code == BPF_RET | BPF_K => return k,
                    _ => panic!("another step: {code:#x}"),
                }
            }
        }
    }
}
