# Libraries are neither names nor modules nor attributes before they are imported.
import importlib
import sys

for name in ("numpy", "pandas", "matplotlib", "json", "asyncio", "random", "logging"):
    print(name, name in globals(), name in sys.modules)
try:
    importlib.util
except AttributeError as error:
    print(error)
try:
    pandas
except NameError as error:
    print(error)
