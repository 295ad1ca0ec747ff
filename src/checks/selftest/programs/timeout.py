# Ignores and blocks every signal that can be, in a tree of processes with sessions of their own that go on writing.
import os
import signal
import time

for number in range(1, signal.NSIG):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
for name in ("child", "grandchild"):
    if os.fork() == 0:
        os.setsid()
        if name == "grandchild" and os.fork() != 0:
            os._exit(0)
        break
else:
    name = "main"
while True:
    with open(f"/data/{name}", "a") as file:
        file.write("x")
    time.sleep(0.02)
