# Reads and steers PID 1, which has the only stream to the server.
import os
import resource

for name in ("mem", "environ", "maps", "auxv", "stack", "syscall", "fd", "fdinfo", "map_files"):
    path = f"/proc/1/{name}"
    tried.append(path)
    try:
        shown = os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(64)
    except OSError:
        continue
    if shown and shown != b"running\n":
        found.append(f"{path} can be read")
for number in (0, 1, 2):
    tried.append(f"/proc/1/fd/{number}")
    try:
        os.close(os.open(f"/proc/1/fd/{number}", os.O_WRONLY | os.O_NONBLOCK))
        found.append(f"/proc/1/fd/{number} opens for writing")
    except OSError:
        pass
tried.append("prlimit of PID 1")
try:
    resource.prlimit(1, resource.RLIMIT_CORE, (0, 0))
    found.append("limits of PID 1 can be set")
except PermissionError:
    pass
