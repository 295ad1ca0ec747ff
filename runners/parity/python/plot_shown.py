# plt.show() saves figures, closes them, and says nothing.
import matplotlib.pyplot as plt

plt.plot([1, 2, 3])
plt.show()
print(plt.get_fignums())
plt.bar(["a", "b"], [1, 2])
plt.show(block=False)
print(plt.get_fignums())
