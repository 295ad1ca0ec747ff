# sys.stdout replaced by a file of the program.
import sys

sys.stdout = open("/data/redirected.txt", "w")
print("into the file")
print("and on stderr", file=sys.stderr)
