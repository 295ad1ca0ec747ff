# Writes more than the quota in files that are each small.
import os

limit = int(os.environ["LIMIT"])
block = os.urandom(1 << 20)
for number in range((limit >> 20) + 512):
    with open(f"/data/{number}", "wb", buffering=0) as file:
        file.write(block)
print("past", (number + 1) << 20)
