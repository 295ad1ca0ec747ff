# Linear algebra in one thread.
import os

import numpy as np

a = np.random.default_rng(0).random((200, 200))
print(round(float(np.linalg.det(a @ a.T) ** 0), 3), len(os.listdir("/proc/self/task")))
