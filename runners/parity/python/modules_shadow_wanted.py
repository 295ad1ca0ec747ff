# Unless the program asks for it.
import sys

sys.path.insert(0, "/data")
import random

print(random.__file__, hasattr(random, "shadow"))
