# What an import brings along, and what it does not.
import sys

import pandas

for name in ("numpy", "dateutil", "matplotlib", "matplotlib.pyplot", "seaborn", "scipy", "openpyxl"):
    print(name, name in sys.modules)
print(hasattr(pandas, "plotting"), hasattr(pandas, "nope"))
