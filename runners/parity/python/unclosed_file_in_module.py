# Files that hang on modules of the library.
import os
import random

random.log = open("/data/random.txt", "w")
random.log.write("random")
os.log = open("/data/os.txt", "w")
os.log.write("os")
