# Where libraries come from.
import importlib.util

for name in ("json", "numpy", "helper", "no_such_module"):
    spec = importlib.util.find_spec(name)
    print(name, spec and spec.origin, spec and type(spec.loader).__name__)
