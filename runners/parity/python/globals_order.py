# The names in the program's namespace, in order.
print([name for name in globals()])
print(type(__loader__).__name__, __loader__.path)
