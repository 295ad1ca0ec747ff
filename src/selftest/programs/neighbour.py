# Keeps the machine busy: processor, processes, memory, disk and output, all below the limits.
import os
import time

end = time.monotonic() + 6
for _ in range(4):
    try:
        if os.fork() == 0:
            break
    except OSError:
        break
block = os.urandom(1 << 20)
while time.monotonic() < end:
    os.write(2, b"noise\n" * 10)
    with open(f"/data/{os.getpid()}", "wb") as file:
        file.write(block)
    try:
        os.posix_spawn("/bin/true", ["true"], {})
        os.waitpid(-1, 0)
    except OSError:
        pass
print("done")
