# Prints without end.
import os

block = b"flood\n" * 10_000
while True:
    os.write(1, block)
