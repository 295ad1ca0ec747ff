# Random numbers of parent and child differ.
import os
import random

import numpy
import uuid

values = [random.random(), float(numpy.random.rand()), uuid.uuid4().hex]
print(len(set(map(str, values))), all(0 <= value < 1 for value in values[:2]))
