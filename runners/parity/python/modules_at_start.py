# Nothing is loaded that the program did not import.
import sys

print(sorted(sys.modules))
