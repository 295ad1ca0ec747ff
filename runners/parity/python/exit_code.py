# sys.exit with a number.
import sys

print("before")
sys.exit(7)
