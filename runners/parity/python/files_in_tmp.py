# What is in /tmp at the start.
import os

print(sorted(os.listdir("/tmp")), open(__file__).read() == open("/tmp/main.py").read(), oct(os.stat(__file__).st_mode))
