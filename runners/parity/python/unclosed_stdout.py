# Output without a newline at the end, on both streams.
import sys

print("no newline", end="")
sys.stderr.write("no newline either")
