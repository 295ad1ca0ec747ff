# An exit function cannot change the exit code.
import atexit
import sys

sys.unraisablehook = lambda report: print("ignored:", repr(report.exc_value))
atexit.register(lambda: sys.exit(8))
print("done")
