# Leaves a mark for the next program wherever it can.
import ctypes
import os
import signal
import socket
import time

# Not as it is, or looking for it would find the variable.
mark = os.environ["KRAM"][::-1]
number = int(os.environ["NUMBER"])
left = []


def leave(what, act):
    try:
        act()
        left.append(what)
    except OSError:
        pass


def write(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a") as file:
        file.write(mark)


home = os.path.expanduser("~")
places = {"/tmp", "/var/tmp", "/run", "/data", home + "/.config", f"/tmp/closed-{mark}/b/c"}
mounted = {line.split()[1] for line in open("/proc/self/mounts")}
places |= {place for place in mounted if os.path.isdir(place) and not place.startswith(("/proc", "/sys", "/mnt/data"))}
for directory in sorted(places):
    leave(directory, lambda: write(f"{directory}/{mark}"))
for path in ("/tmp/main.py", home + "/.bashrc", home + "/.local/lib/python3/sitecustomize.py"):
    leave(path, lambda: write(path))
leave("closed directory", lambda: os.chmod(f"/tmp/closed-{mark}/b", 0))
leave("queue", lambda: os.close(os.open(f"/dev/mqueue/{mark}", os.O_CREAT | os.O_RDWR)))
libc = ctypes.CDLL(None, use_errno=True)
for name, made in (
    ("shared memory", libc.shmget(number, 4096, 0o1666)),
    ("semaphores", libc.semget(number, 1, 0o1666)),
    ("messages", libc.msgget(number, 0o1666)),
):
    if made >= 0:
        left.append(name)
reader, writer = os.pipe()
for stopped in (False, True):
    if os.fork() == 0:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
        libc.prctl(15, mark[:15].encode(), 0, 0, 0)
        socket.socket(socket.AF_UNIX).bind(f"\0{mark}{stopped}")
        os.write(writer, b"x")
        if stopped:
            os.kill(os.getpid(), signal.SIGSTOP)
        while True:
            time.sleep(60)
os.read(reader, 1), os.read(reader, 1)
left.append("processes")
os.environ[mark] = mark
print("left", len(left), flush=True)
