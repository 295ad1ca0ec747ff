# os._exit skips exit functions and buffers.
import atexit
import os

atexit.register(print, "never seen")
print("seen")
os._exit(5)
