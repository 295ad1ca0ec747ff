# Takes memory until it is ended, or has far more than it should.
import os

limit = int(os.environ["LIMIT"])
taken = []
while len(taken) << 22 < limit + limit // 4 + (64 << 20):
    taken.append(bytearray(b"x" * (4 << 20)))
print("past", len(taken) << 22)
