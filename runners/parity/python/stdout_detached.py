# A stream without its buffer.
import sys

sys.stdout.detach().write(b"bytes")
