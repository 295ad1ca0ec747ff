# Makes one file larger than allowed, without filling the disk.
import errno
import os
import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = int(os.environ["LIMIT"])
file = os.open("/data/huge", os.O_CREAT | os.O_WRONLY)
for name, act in (
    ("sparse", lambda: os.ftruncate(file, limit + 1)),
    ("reserved", lambda: os.posix_fallocate(file, limit, 1)),
    ("written", lambda: os.pwrite(file, b"x", limit)),
):
    try:
        act()
        print("past", os.stat("/data/huge").st_size, name)
        break
    except OSError as error:
        reason = errno.errorcode[error.errno]
else:
    print("stopped", os.stat("/data/huge").st_size, reason)
