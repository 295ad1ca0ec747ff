# Takes what the kernel counts for a user, or for the host, as far as it gets, and keeps it until the file `stop`
# is there.
import ctypes
import os
import socket
import time

# Later, there may be no descriptor left for it.
begun = open("/data/begun", "w")
held = []
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_long] * 3
IO_SETUP = 206 if os.uname().machine == "x86_64" else 0

if libc.syscall(IO_SETUP, 1, ctypes.addressof(ctypes.c_ulong(0))) == 0:
    print("took requests of io_setup")

# As many as it may without being ended.
try:
    held += [os.openpty() for _ in range(60)]
except OSError:
    pass

# Descriptors that are under way are counted for the user, by the limit of the sender.
a_file = os.open("/dev/null", os.O_RDONLY)
try:
    while True:
        sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        held += [sender, receiver]
        socket.send_fds(sender, [b"."], [a_file] * 200)
except OSError:
    pass
held.pop().close()
held.pop().close()

if os.environ["ALL"] == "1":
    while (one := libc.inotify_init1(0)) >= 0:
        held.append(one)
    for number in range(100):
        libc.mq_open(b"/%d" % number, os.O_CREAT | os.O_RDWR, 0o600, None)

begun.write("begun")
begun.flush()
while not os.path.exists("/data/stop"):
    time.sleep(0.05)
print("done")
