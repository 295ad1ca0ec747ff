# Raw bytes, and text written around them.
import sys

sys.stdout.write("text\n")
sys.stdout.flush()
sys.stdout.buffer.write(b"\x00\xff\xfe raw\n")
