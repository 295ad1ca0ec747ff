# Computes on as many cores as there are, and one more.
import os
import time

children = []
for _ in range(os.cpu_count()):
    child = os.fork()
    if child == 0:
        break
    children.append(child)
end = time.monotonic() + 2
while time.monotonic() < end:
    pass
if len(children) < os.cpu_count():
    os._exit(0)
for child in children:
    os.waitpid(child, 0)
print("done")
