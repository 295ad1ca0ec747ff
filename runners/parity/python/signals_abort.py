# abort().
import os

print("aborting")
os.abort()
