# Uses its workspace, then refuses to end.
import os
import signal
import time

for number in range(1, signal.NSIG):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
print("lists", *sorted(os.listdir("/data")), flush=True)
word = open("/data/seen.txt").read()
with open("/data/written.txt", "w") as file:
    file.write(word[::-1])
print("wrote", flush=True)
while True:
    time.sleep(60)
