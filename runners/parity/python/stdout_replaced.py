# Output without a newline, of which the rest goes elsewhere.
import io
import sys

print("Result: 42", end="")
sys.stderr.write("Warning: 7")
sys.stdout = sys.stderr = io.StringIO()
print("seen by nobody")
