# Uploaded files named like a library do not shadow it.
import random

print(random.__file__)
print(hasattr(random, "shadow"))
