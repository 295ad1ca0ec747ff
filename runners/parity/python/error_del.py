# An error in __del__ is reported and ignored.
import sys

class Thing:
    def __del__(self):
        raise ValueError("in del")


sys.unraisablehook = lambda report: print("ignored:", report.exc_value, report.object.__qualname__)
thing = Thing()
del thing
print("after")
