"""The standard input of a program or cell that is given one: a file without a name, which is gone with who has it.

Whoever reads it need not be fed, and whoever does not need not be waited for.
"""

import os
import sys

INPUT = 0


def give(text):
    """Have this process read `text`, and then the end of the file."""
    file = os.memfd_create("stdin")
    with open(file, "wb", closefd=False) as writing:
        writing.write(text.encode())
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, INPUT)
    os.close(file)


def take_away():
    """Leave nothing to be read."""
    file = os.open(os.devnull, os.O_RDONLY)
    os.dup2(file, INPUT)
    os.close(file)


def renew():
    """Read from what is there now: what the previous stream had read ahead is not for this cell."""
    old = sys.__stdin__
    new = open(INPUT, encoding="utf-8", errors="surrogateescape", closefd=False)
    new.buffer.raw.name = "<stdin>"
    new.mode = "r"
    sys.stdin = sys.__stdin__ = new
    if old is not None:
        old.close()  # not its descriptor
