# Standard input is empty, in every way of reading it.
import os
import sys

print(repr(sys.stdin.read()), repr(sys.stdin.buffer.read()), os.read(0, 10), list(sys.stdin))
