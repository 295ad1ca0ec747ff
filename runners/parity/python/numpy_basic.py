# numpy, its printing and its errors.
import numpy as np

print(np.arange(6).reshape(2, 3) @ np.ones(3), np.get_printoptions()["precision"], np.geterr())
np.zeros(3) + np.zeros(4)
