# An exception hook of the program.
import sys

sys.excepthook = lambda kind, error, trace: print("hook:", kind.__name__, error)
raise ValueError("hooked")
