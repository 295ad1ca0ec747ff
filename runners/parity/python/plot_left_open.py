# Figures that are open at the end are saved, unless they are empty or unchanged.
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

matplotlib.rcParams["svg.hashsalt"] = "parity"
plt.figure()
figure, axes = plt.subplots()
axes.plot([3, 1, 2])
figure.savefig("/data/kept.svg", metadata={"Date": None})
other, axes = plt.subplots()
axes.hist([1, 1, 2])
other.savefig("/data/first.png", transparent=True)
axes.set_title("changed after saving")
