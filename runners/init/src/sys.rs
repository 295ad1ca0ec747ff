//! The system calls that no library offers in a safe form. All `unsafe` code of the crate is here.

#![expect(
    unsafe_code,
    reason = "signalfd, seccomp, wait4, kill(-1), System V IPC, namespaces, interfaces, connections and work between fork and exec"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::time::Duration;

use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, setrlimit};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use sandbox_init::Status;

use crate::confine::Confinement;
use crate::filter::Filter;

/// Where a child finds what it has beside its streams.
const THIRD_FD: i32 = 3;

/// Getting and setting the flags of an interface. Their type differs between C libraries.
const SIOCGIFFLAGS: Opcode = 0x8913;
const SIOCSIFFLAGS: Opcode = 0x8914;

/// The processes that stay with a driver are among the first that come after it.
pub(crate) const HELPERS: u32 = 2;

/// Programs get PID 1's limit on pending signals divided by this.
///
/// The kernel counts these signals for the whole user and compares with the limit of the receiver. Programs that cannot
/// come near PID 1's limit cannot make it mistake their signals for the engine's, which come without a sender.
const SIGNALS_SHARE: u64 = 8;

/// Programs get PID 1's limit on descriptors divided by this.
///
/// The kernel counts descriptors that are under way through sockets for the whole user, and compares with the limit of
/// the sender. PID 1 hands programs their streams in this way, whatever others of the same user have under way.
const FILES_SHARE: u64 = 4;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Makes every open descriptor close on exec: children get streams of their own, and never those to the server. The
/// engine leaves no others open; for them this is a second safeguard.
pub(crate) fn close_on_exec() {
    // SAFETY: takes no pointers; changes flags of descriptors only.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            0,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
}

/// Puts a filter on this process and all that come from it.
///
/// A kernel without filters has none of the engine's either, which the server notices.
pub(crate) fn restrict(filter: &mut Filter) -> io::Result<()> {
    let code = filter.code();
    let program = libc::sock_fprog {
        len: u16::try_from(code.len()).unwrap_or(u16::MAX),
        filter: code.as_mut_ptr(),
    };
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the filter is valid and lives until the kernel has copied it.
    match check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) }) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        set => set.map(drop),
    }
}

fn signal_set(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Turns SIGCHLD and SIGTERM into bytes on a descriptor.
///
/// It is placed on [`THIRD_FD`], so that nothing that std opens on its way to an exec can be there and be overwritten.
pub(crate) fn signals() -> io::Result<OwnedFd> {
    let set = signal_set(&[libc::SIGCHLD, libc::SIGTERM]);
    // SAFETY: `set` lives as long as the calls that read it; the descriptors made here belong to nobody else, and
    // `THIRD_FD` is free because the program has opened nothing yet.
    unsafe {
        check(libc::sigprocmask(
            libc::SIG_BLOCK,
            &raw const set,
            ptr::null_mut(),
        ))?;
        let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
        let fd = OwnedFd::from_raw_fd(check(libc::signalfd(-1, &raw const set, flags))?);
        if fd.as_raw_fd() == THIRD_FD {
            return Ok(fd);
        }
        check(libc::dup3(fd.as_raw_fd(), THIRD_FD, libc::O_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(THIRD_FD))
    }
}

/// Reads the signals that have come. True when one is a SIGTERM from outside the sandbox.
///
/// A signal from outside has no sender in here. Neither has one for whose sender the kernel had no room: see
/// [`SIGNALS_SHARE`].
pub(crate) fn told_to_stop(signals: &OwnedFd) -> bool {
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut buffer = [0; 16 * SIZE];
    let mut stop = false;
    while let Ok(length @ 1..) = rustix::io::read(signals, &mut buffer) {
        for info in buffer[..length].chunks_exact(SIZE) {
            // SAFETY: the kernel wrote a whole `signalfd_siginfo`, which is valid for any bytes.
            let info: libc::signalfd_siginfo = unsafe { ptr::read_unaligned(info.as_ptr().cast()) };
            let outside = info.ssi_code == libc::SI_USER && info.ssi_pid == 0;
            stop |= outside && info.ssi_signo == libc::SIGTERM.cast_unsigned();
        }
    }
    stop
}

/// A process that has ended, with what it and the children it waited for used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) pid: Pid,
    pub(crate) status: Status,
    pub(crate) cpu: Duration,
    /// The largest resident size of any one process.
    pub(crate) max_rss: u64,
}

/// Waits for one child that has already ended.
pub(crate) fn reap() -> Option<Ended> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let flags = libc::WNOHANG | libc::__WALL;
    // SAFETY: both pointers are valid for writes; a zeroed `rusage` is valid.
    let (pid, usage) = unsafe {
        let pid = libc::wait4(-1, &raw mut status, flags, usage.as_mut_ptr());
        (pid, usage.assume_init())
    };
    if pid <= 0 {
        return None;
    }
    let duration = |time: libc::timeval| {
        let (seconds, micros) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec));
        Duration::from_secs(seconds.unwrap_or(0)) + Duration::from_micros(micros.unwrap_or(0))
    };
    Some(Ended {
        pid: Pid::from_raw(pid)?,
        status: if libc::WIFSIGNALED(status) {
            Status::Signal(libc::WTERMSIG(status))
        } else {
            Status::Exit(libc::WEXITSTATUS(status))
        },
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        max_rss: u64::try_from(usage.ru_maxrss).unwrap_or(0) << 10,
    })
}

/// Sends a signal to every process except PID 1, at once: no process can be made during that. False if there was none.
pub(crate) fn kill_all(signal: Signal) -> bool {
    // SAFETY: takes no pointers. `main` has made sure that this is PID 1 of a namespace.
    unsafe { libc::kill(-1, signal.as_raw()) == 0 }
}

/// What a child has beside its streams, as its descriptor 3.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Third<'fd> {
    Nothing,
    /// The socket of a driver.
    Channel(BorrowedFd<'fd>),
    /// The standard input of the program that the child will be.
    Input(BorrowedFd<'fd>),
}

/// Starts a command as the leader of its own session, confined.
///
/// std resets SIGPIPE to its default, and returns only after the exec.
pub(crate) fn spawn(
    command: &mut Command,
    third: Third<'_>,
    confinement: &Confinement,
) -> io::Result<Pid> {
    let is_driver = matches!(third, Third::Channel(_));
    let third = match third {
        Third::Nothing => None,
        Third::Channel(fd) | Third::Input(fd) => Some(fd.as_raw_fd()),
    };
    let ruleset = confinement.ruleset().map(|fd| fd.as_raw_fd());
    let no_signals = signal_set(&[]);
    let signals = share(Resource::Sigpending, SIGNALS_SHARE);
    let files = share(Resource::Nofile, FILES_SHARE);
    // SAFETY: between fork and exec only async-signal-safe calls are made, on descriptors that are open there;
    // `THIRD_FD` holds the signal descriptor of the parent, which the child has no use for.
    unsafe {
        command.pre_exec(move || {
            check(libc::sigprocmask(
                libc::SIG_SETMASK,
                &raw const no_signals,
                ptr::null_mut(),
            ))?;
            check(libc::setsid())?;
            setrlimit(Resource::Sigpending, signals)?;
            setrlimit(Resource::Nofile, files)?;
            if let Some(ruleset) = ruleset
                && libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) != 0
            {
                return Err(io::Error::last_os_error());
            }
            if let Some(third) = third {
                check(libc::dup2(third, THIRD_FD))?;
            }
            let filter = if is_driver {
                let own = std::process::id();
                Filter::sparing(own, own.saturating_add(HELPERS))
            } else {
                Filter::none()
            };
            restrict(&mut filter.last())
        });
    }
    Ok(Pid::from_child(&command.spawn()?))
}

/// A limit of this process, divided.
fn share(resource: Resource, by: u64) -> Rlimit {
    let share = getrlimit(resource).current.map(|limit| limit / by);
    Rlimit {
        current: share,
        maximum: share,
    }
}

/// A kind of System V object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ipc {
    Memory,
    Queue,
    Semaphores,
}

/// Removes a System V object.
pub(crate) fn remove_ipc(kind: Ipc, id: i32) -> io::Result<()> {
    // SAFETY: IPC_RMID reads no fourth argument and writes nothing.
    let result = unsafe {
        match kind {
            Ipc::Memory => libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()),
            Ipc::Queue => libc::msgctl(id, libc::IPC_RMID, ptr::null_mut()),
            Ipc::Semaphores => libc::semctl(id, 0, libc::IPC_RMID),
        }
    };
    check(result).map(drop)
}

/// Gives this process a network with nothing in it, and a user namespace that it belongs to. It must be the only
/// thread.
pub(crate) fn unshare_network() -> io::Result<()> {
    let flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNET;
    // SAFETY: descriptors are shared with nobody, before and after.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// How many segments have come in on a connection, whether it still is one or never was.
pub(crate) fn segments_received(connection: &OwnedFd) -> io::Result<u32> {
    /// Where the kernel's `tcp_info` has the number, which not every C library knows.
    const SEGMENTS: usize = 140;
    const END: usize = SEGMENTS + size_of::<u32>();
    let mut info = [0_u8; END];
    let mut length = libc::socklen_t::try_from(END).unwrap_or_default();
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the kernel writes no more than `length` says, and how much that was.
    check(unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            level,
            option,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    match info.last_chunk() {
        Some(number) if usize::try_from(length) == Ok(END) => Ok(u32::from_ne_bytes(*number)),
        // A kernel that is too old to know.
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Whether an interface of the network is up.
pub(crate) fn is_up(name: &str) -> io::Result<bool> {
    let flags = interface_flags::<SIOCGIFFLAGS>(name, 0)?;
    Ok(libc::c_int::from(flags) & libc::IFF_UP != 0)
}

/// Brings an interface of the network up.
pub(crate) fn raise(name: &str) -> io::Result<()> {
    // One is in the lower half.
    let up = libc::c_short::try_from(libc::IFF_UP).unwrap_or_default();
    interface_flags::<SIOCSIFFLAGS>(name, up).map(drop)
}

/// Gets or sets the flags of an interface.
fn interface_flags<const OPERATION: Opcode>(
    name: &str,
    flags: libc::c_short,
) -> io::Result<libc::c_short> {
    let any = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: of an `ifreq`, all bytes may be zero. It lives until the kernel has read and written it, which knows it
    // by its name, that ends with a zero, and reads and writes no more than its flags.
    unsafe {
        let mut request: libc::ifreq = MaybeUninit::zeroed().assume_init();
        let room = request.ifr_name.len() - 1;
        for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
            *place = libc::c_char::from_ne_bytes([byte]);
        }
        request.ifr_ifru.ifru_flags = flags;
        ioctl(&any, Updater::<OPERATION, libc::ifreq>::new(&mut request))?;
        Ok(request.ifr_ifru.ifru_flags)
    }
}
