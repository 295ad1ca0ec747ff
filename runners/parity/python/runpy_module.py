# A module run as a program.
import runpy

result = runpy.run_module("helper", run_name="__main__")
print(sorted(name for name in result if not name.startswith("__")))
