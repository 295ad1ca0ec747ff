# Calls what programs do not need and what has led out of containers before, with arguments that do nothing even where
# it is allowed. Every call must be refused before the kernel looks at its arguments.
import ctypes
import errno
import mmap
import os
import platform
import signal
import socket
import struct

ME, NOBODY, BAD = os.getpid(), 0x7FFFFFFF, 1
# Name, number on x86-64, number on arm64, arguments. A clone of those flags cannot succeed.
CALLS = [
    ("mount", 165, 40, 0, 0, 0, 0, 0),
    ("umount2", 166, 39, 0, 0),
    ("pivot_root", 155, 41, 0, 0),
    ("chroot", 161, 51, 0),
    ("clone a user namespace", 56, 220, 0x10000000 | 0x200, 0, 0, 0, 0),
    ("unshare a user namespace", 272, 97, 0x10000000),
    ("unshare a mount namespace", 272, 97, 0x20000),
    ("setns", 308, 268, -1, 0),
    ("bpf", 321, 280, 0, 0, 0),
    ("perf_event_open", 298, 241, 0, 0, -1, -1, 0),
    ("keyctl", 250, 219, 0, -3, 0),
    ("add_key", 248, 217, 0, 0, 0, 0, 0),
    ("request_key", 249, 218, 0, 0, 0, 0),
    ("userfaultfd", 323, 282, 0),
    ("kexec_load", 246, 104, 0, 99, 0, 0),
    ("open_by_handle_at", 304, 265, -1, 0, 0),
    ("name_to_handle_at", 303, 264, -1, 0, 0, 0, 0),
    ("init_module", 175, 105, 0, 0, 0),
    ("finit_module", 313, 273, -1, 0, 0),
    ("quotactl", 179, 60, -1, 0, 0, 0),
    ("reboot", 169, 142, 0, 0, 0),
    ("swapon", 167, 224, 0, 0),
    ("acct", 163, 89, BAD),
    ("ptrace", 101, 117, 0x4206, NOBODY, 0, 0),
    ("process_vm_readv", 310, 270, ME, 0, 0, 0, 0, 0),
    ("process_vm_writev", 311, 271, ME, 0, 0, 0, 0, 0),
    ("kcmp", 312, 272, ME, ME, 0, 0, 0),
    ("fanotify_init", 300, 262, 0, 0),
    ("syslog", 103, 116, 10, 0, 0),
    ("mknodat a device", 259, 33, -100, 0, 0o20600, 0x103),
    ("mknodat an overlay whiteout", 259, 33, -100, 0, 0o20600, 0),
    ("io_uring_setup", 425, 425, 8, 0),
    ("io_uring_enter", 426, 426, -1, 0, 0, 0, 0, 0),
    ("io_uring_register", 427, 427, -1, 0, 0, 0),
    ("open_tree", 428, 428, -1, 0, 0),
    ("move_mount", 429, 429, -1, 0, -1, 0, 0),
    ("fsopen", 430, 430, 0, 0),
    ("fsconfig", 431, 431, -1, 0, 0, 0, 0),
    ("fsmount", 432, 432, -1, 0, 0),
    ("fspick", 433, 433, -1, 0, 0),
    ("clone3", 435, 435, 0, 0),
    ("pidfd_getfd", 438, 438, -1, 0, 0),
    ("process_madvise", 440, 440, -1, 0, 0, 0, 0),
    ("mount_setattr", 442, 442, -1, 0, 0, 0, 0),
    ("quotactl_fd", 443, 443, -1, 0, 0, 0),
    ("memfd_secret", 447, 447, 0),
    ("lsm_set_self_attr", 460, 460, 0, 0, 0, 0),
    ("setxattrat", 463, 463, -1, 0, 0, 0, 0, 0),
    ("open_tree_attr", 467, 467, -1, 0, 0, 0, 0),
    ("file_setattr", 469, 469, -1, 0, 0, 0, 0),
    ("fchmod to set-user-ID", 91, 52, -1, 0o4755),
    ("fchmod to set-group-ID", 91, 52, -1, 0o2755),
    ("fchmodat to set-user-ID", 268, 53, -1, 0, 0o4755),
    ("fchmodat2 to set-group-ID", 452, 452, -1, 0, 0o2755, 0),
    ("mkdirat with set-group-ID", 258, 34, -1, 0, 0o2755),
    ("openat to make a set-user-ID file", 257, 56, -1, 0, 0o101, 0o4755),
    ("openat to make a nameless set-group-ID file", 257, 56, -1, 0, 0o20200001, 0o2755),
    ("openat2", 437, 437, -1, 0, 0, 0),
    ("io_setup", 206, 0, 0, 0),
    ("msgget", 68, 186, NOBODY, 0),
    ("ioctl to make a btrfs subvolume", 16, 29, -1, 0x5000940E, 0),
]
X86_ONLY = [
    ("iopl", 172, 3),
    ("ioperm", 173, 0, 1, 1),
    ("modify_ldt", 154, 0, 0, 0),
    ("mknod", 133, 0, 0o20600, 0),
    ("chmod to set-user-ID", 90, 0, 0o4755),
    ("creat of a set-user-ID file", 85, 0, 0o4755),
    ("mkdir with set-group-ID", 83, 0, 0o2755),
    ("open to make a set-user-ID file", 2, 0, 0o101, 0o4755),
]
REFUSED = (errno.EPERM, errno.ENOSYS)
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_ulong] * 7
libc.syscall.restype = ctypes.c_long


def fails_with(number, *arguments):
    """Gives the error of a system call, or 0."""
    ctypes.set_errno(0)
    rest = [argument & 0xFFFFFFFFFFFFFFFF for argument in arguments]
    result = libc.syscall(number, *rest, *[0] * (6 - len(rest)))
    return ctypes.get_errno() if result == -1 else 0


X86 = platform.machine() == "x86_64"
calls = [(name, old if X86 else new, *rest) for name, old, new, *rest in CALLS] + (X86_ONLY if X86 else [])
for name, number, *arguments in calls:
    tried.append(name)
    if fails_with(number, *arguments) not in (*REFUSED, errno.EOPNOTSUPP):
        found.append(name)

# Options whose memory nothing counts, or that load kernel modules. (An unprivileged program gets another error where
# they are allowed: for these arguments are wrong.)
SETSOCKOPT = 54 if X86 else 208
with socket.socket() as one:
    for name, level, option in (
        ("SO_ATTACH_FILTER", 1, 26),
        ("SO_ATTACH_BPF", 1, 50),
        ("SO_ATTACH_REUSEPORT_CBPF", 1, 51),
        ("SO_ATTACH_REUSEPORT_EBPF", 1, 52),
        ("SO_ZEROCOPY", 1, 60),
        ("TCP_MD5SIG", 6, 14),
        ("TCP_ULP", 6, 31),
        ("TCP_MD5SIG_EXT", 6, 32),
        ("TCP_AO_ADD_KEY", 6, 38),
    ):
        tried.append(name)
        if fails_with(SETSOCKOPT, one.fileno(), level, option, 0, 0) != errno.ENOPROTOOPT:
            found.append(name)

# A filter of one's own: the kernel keeps it as machine code, for which a host has little room.
for name, number, *arguments in (
    ("prctl to set a filter", 157 if X86 else 167, 22, 2, 0),
    ("seccomp to set a filter", 317 if X86 else 277, 1, 0, 0),
):
    tried.append(name)
    if fails_with(number, *arguments) != errno.EINVAL:
        found.append(name)

# Families that leave the network namespace, such as vsock, also with bits in the upper half of the argument, which the
# kernel ignores and a careless filter compares.
SOCKET, SOCKETPAIR = (41, 53) if X86 else (198, 199)
pair = (ctypes.c_int * 2)()
families = set()
for family in sorted(set(range(3, 50)) - {10, 16}):
    tried.append(f"socket family {family}")
    for high in (0, 1 << 32, 1 << 63):
        for kind in (1, 2, 3, 5):
            for call in (SOCKET, SOCKETPAIR):
                if fails_with(call, family | high, kind, 0, ctypes.addressof(pair)) not in REFUSED:
                    families.add("vsock" if family == 40 else str(family))
for family in (2, 10):
    for protocol in (33, 115, 132, 136, 262):
        tried.append(f"protocol {protocol} of family {family}")
        for kind in (1, 2, 5, 6):
            if fails_with(SOCKET, family, kind, protocol) not in (*REFUSED, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT):
                families.add(f"{family} with protocol {protocol}")
if families:
    found.append("sockets of the families " + ", ".join(sorted(families, reverse=True)))


def run(code):
    """Runs machine code in a child. Gives what it returned, or the signal that ended it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        os.write(writer, struct.pack("<i", ctypes.CFUNCTYPE(ctypes.c_int)(address)()))
        os._exit(0)
    os.close(writer)
    answer = os.read(reader, 4)
    _, status = os.waitpid(child, 0)
    return struct.unpack("<i", answer)[0] if answer else signal.Signals(os.WTERMSIG(status)).name


# Calls by the numbers of other machine types, which mean other things than the filter's: a vsock by i386's `socket`
# and by x32's.
VSOCK = struct.pack("<I", 40)
STREAM = struct.pack("<I", 1)
FOREIGN = [
    ("i386", b"\x53\xb8" + struct.pack("<I", 359) + b"\xbb" + VSOCK + b"\xb9" + STREAM + b"\x31\xd2\xcd\x80\x5b\xc3"),
    ("x32", b"\xb8" + struct.pack("<I", 0x40000029) + b"\xbf" + VSOCK + b"\xbe" + STREAM + b"\x31\xd2\x0f\x05\xc3"),
]
for name, code in FOREIGN if X86 else []:
    tried.append(name)
    result = run(code)
    if result not in ("SIGSYS", "SIGSEGV", -errno.EPERM, -errno.ENOSYS):
        found.append(f"calls of {name}")

# Sizes that programs set for the kernel's buffers, which are then as they were.
for name, option in (("SO_SNDBUF", socket.SO_SNDBUF), ("SO_RCVBUF", socket.SO_RCVBUF)):
    tried.append(name)
    with socket.socket() as one:
        before = one.getsockopt(socket.SOL_SOCKET, option)
        one.setsockopt(socket.SOL_SOCKET, option, 1 << 16)
        one.setsockopt(socket.SOL_SOCKET, option, 1 << 14)
        if one.getsockopt(socket.SOL_SOCKET, option) != before:
            found.append(name)
