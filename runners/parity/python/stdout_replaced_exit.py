# Bytes without a newline below a stream that the program has put something else in the place of.
import io
import sys

sys.stdout.buffer.write(b"bytes")
sys.stdout = io.StringIO()
sys.exit(3)
