# os.fork, with exit functions and buffers in the child.
import atexit
import os
import sys

atexit.register(lambda: print("exit function in", "parent" if os.getpid() == parent else "child"))
parent = os.getpid()
child = os.fork()
if child == 0:
    print("in the child")
    sys.exit(3)
print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
