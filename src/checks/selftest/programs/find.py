# Looks for the mark of another program wherever that can have left it.
import glob
import os

mark = os.environ["KRAM"][::-1].encode()
WHERE = os.environ["WHERE"].split()


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""


def look(path, text):
    tried.append(path)
    if mark in text:
        found.append(f"the mark in {path}")


for top in WHERE:
    for directory, below, files in os.walk(top):
        for name in below + files:
            path = os.path.join(directory, name)
            look("names in " + directory, name.encode())
            if not os.path.islink(path) and os.path.isfile(path):
                look(path, read(path))
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/comm"):
    look(path, read(path))
for path in ("/proc/net/unix", "/proc/self/mountinfo", "/proc/self/cgroup"):
    look(path, read(path))
for name in ("shm", "sem", "msg"):
    tried.append(f"IPC {name}")
    if len(read(f"/proc/sysvipc/{name}").splitlines()) > 1:
        found.append(f"IPC objects of kind {name}")
# PID 1, the drivers, this one with who shares its memory, and its inspection.
processes = [name for name in os.listdir("/proc") if name.isdigit()]
if len(processes) > 6:
    found.append(f"{len(processes)} processes")
for name, value in os.environ.items():
    look("the environment", name.encode() + value.encode())
