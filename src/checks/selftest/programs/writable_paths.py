# Tries to make a file in every directory, and to open what other parties read for writing. Only /data and scratch
# directories that belong to the sandbox alone are meant to be written to.
import ctypes
import os

MEANT = ("/data", "/tmp", "/dev/shm", "/dev/mqueue")
# /data may have a second name, which must not be another directory.
ALIAS = "/mnt/data"
SECOND = (ALIAS,) if os.path.exists(ALIAS) and os.path.samefile(ALIAS, "/data") else ()
SKIPPED = (*MEANT, *SECOND, "/proc", "/sys")
FILES = (
    "/.sandbox-init",
    "/.sandbox-ca.pem",
    # A cluster's: it is for a last message, and any user may write to it.
    "/.sandbox-termination",
    "/dev/console",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/proc/1/environ",
    "/proc/1/exe",
    "/proc/1/mem",
)
for directory, below, _ in os.walk("/"):
    below[:] = [name for name in below if os.path.join(directory, name) not in SKIPPED]
    tried.append(directory)
    path = os.path.join(directory, ".selftest")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.unlink(path)
        found.append(directory)
    except OSError:
        pass
for path in FILES:
    tried.append(path)
    try:
        os.close(os.open(path, os.O_WRONLY))
        found.append(path)
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
LANDLOCK_CREATE_RULESET, VERSION = 444, 1
libc.syscall.argtypes = [ctypes.c_long] * 4
version = libc.syscall(LANDLOCK_CREATE_RULESET, 0, 0, VERSION)
if version < 2:
    notes.append("the kernel has no Landlock, or its first version: the mounts alone keep files, and no sandbox is used twice")
for path in ("/data", "/tmp"):
    path = os.path.join(path, ".selftest")
    with open(path, "w") as file:
        file.write("x")
    os.unlink(path)
