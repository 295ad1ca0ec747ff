# The canvas can be read after drawing and after saving.
import matplotlib.pyplot as plt
import numpy as np

figure, axes = plt.subplots(figsize=(2, 2))
axes.plot([1, 2])
figure.canvas.draw()
first = np.asarray(figure.canvas.buffer_rgba()).copy()
plt.savefig("/data/buffer.png")
second = np.asarray(figure.canvas.buffer_rgba())
print(first.shape, second.shape, bool((first == second).all()), bool((first < 255).any()))
