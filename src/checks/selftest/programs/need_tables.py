# Needs a little of what another conversation takes.
import ctypes
import os
import socket

libc = ctypes.CDLL(None, use_errno=True)
try:
    os.openpty()
except OSError as error:
    print("lacks a terminal:", error)
if os.environ["ALL"] == "1":
    sender, receiver = socket.socketpair()
    try:
        socket.send_fds(sender, [b"."], [1])
    except OSError as error:
        print("lacks a descriptor under way:", error)
    if libc.inotify_init1(0) < 0:
        print("lacks an inotify instance:", os.strerror(ctypes.get_errno()))
    if libc.mq_open(b"/mine", os.O_CREAT | os.O_RDWR, 0o600, None) < 0:
        print("lacks a message queue:", os.strerror(ctypes.get_errno()))
print("well")
