# The memory limit is the program's own: what the parked interpreter holds does not count.
print(len(bytearray(b"x") * (215 << 20)) >> 20)
