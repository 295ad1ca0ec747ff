# Makes more names than a conversation may have: a further name of a file costs less than a further file.
import os
import time

limit = int(os.environ["LIMIT"])
os.mkdir("/data/many")
os.close(os.open("/data/many/0", os.O_CREAT | os.O_WRONLY))
for number in range(1, limit * 3):
    os.link("/data/many/0", f"/data/many/{number}")
# A look takes long on a slow machine: if none ends this, its time limit does.
print("past", limit * 3, flush=True)
time.sleep(60)
