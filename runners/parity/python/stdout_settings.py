# What the streams look like to the program.
import sys

for stream in (sys.stdin, sys.stdout, sys.stderr):
    print(stream.name, stream.mode, stream.encoding, stream.errors, stream.isatty(), stream.line_buffering)
