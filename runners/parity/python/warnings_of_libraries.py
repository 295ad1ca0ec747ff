# Warnings that numpy and pandas give.
import numpy
import pandas

print(numpy.array([1.0, 0.0]) / 0)
print(numpy.sqrt(-1))
frame = pandas.DataFrame({"a": [1, 2]})
frame.iloc[0, 0] = 1.5
