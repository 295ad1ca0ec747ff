# A plot that the program saves is not saved twice.
import os

import matplotlib.pyplot as plt

plt.plot([1, 2, 3])
plt.savefig("/data/own.png")
print(os.path.getsize("/data/own.png") > 1000, plt.get_backend(), plt.get_fignums())
