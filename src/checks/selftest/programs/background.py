# Leaves a daemon that holds the output open, has no terminal, parent or group in common with it, and goes on writing.
import os
import time

reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            with open("/data/daemon", "a") as file:
                file.write("x")
            os.write(writer, b"x")
            time.sleep(0.02)
    os._exit(0)
# It is there before the program ends.
os.read(reader, 1)
print("done", flush=True)
