# Seeded random numbers.
import random

import numpy

random.seed(1)
numpy.random.seed(2)
print(random.random(), random.sample(range(100), 4), numpy.random.rand(2), numpy.random.default_rng(3).integers(100, size=3))
