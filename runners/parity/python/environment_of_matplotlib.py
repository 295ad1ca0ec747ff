# A setting that matplotlib reads when it is loaded.
import os

os.environ["MPLBACKEND"] = "svg"
import matplotlib.pyplot as plt

plt.plot([1, 2])
print(plt.get_backend(), plt.get_fignums())
plt.close("all")
