# A module that the program has just written.
import importlib
import sys

with open("/data/written.py", "w") as file:
    file.write("VALUE = 'fresh'\n")
importlib.invalidate_caches()
import written

print(written.VALUE, written.__file__, "written" in sys.modules)
