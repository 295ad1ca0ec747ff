# Figures are saved when the program fails too, and never over a file.
import matplotlib.pyplot as plt

with open("/data/figure-1.png", "w") as file:
    file.write("mine")
plt.plot([1, 2])
raise ValueError("after the plot")
