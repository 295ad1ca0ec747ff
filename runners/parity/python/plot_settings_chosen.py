# What a program chooses before matplotlib is there is in force: settings in a file, and a backend.
import os

with open("matplotlibrc", "w") as file:
    file.write("lines.linewidth: 7\nsvg.hashsalt: parity\nbackend: pdf\nno.such.setting: 1\naxes.grid: maybe\n")
import matplotlib

for kept in (matplotlib.rcParams, matplotlib.rcParamsOrig, matplotlib.rcParamsDefault):
    print(kept["lines.linewidth"], kept._get("backend") in ("agg", "pdf"))
matplotlib.use("svg")
import matplotlib.pyplot as plt

plt.plot([1, 2])
plt.savefig("out", metadata={"Date": None})
print(plt.get_backend(), sorted(name for name in os.listdir() if name.startswith("out")))
try:
    plt.switch_backend("TkAgg")
except ImportError as error:
    print(error)
plt.rcdefaults()
print(plt.rcParams["lines.linewidth"])
