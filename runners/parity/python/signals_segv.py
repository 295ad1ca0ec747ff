# A crash.
import ctypes

print("crashing", flush=True)
ctypes.string_at(0)
