"""The two streams of a program as whoever reads them wants them: line by line, and in the order of what was written.

Every interpreter loads it: keep it small.
"""

import os
import stat
import sys
from _io import BufferedWriter, FileIO, TextIOWrapper

FIONREAD = 0x541B
TRIES, MOMENT = 200, 0.00002
PATIENCE = 5


def follow_by_line():
    """Write lines to a pipe as soon as they are complete, as to a terminal, so that nothing is lost in a kill."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(line_buffering=True)


def keep_in_order():
    """Let what was written to one stream be read before something is written to the other: whoever reads two pipes
    cannot see which of two lines came first when both are there."""
    if not all(map(_is_pipe, (1, 2))):
        return
    for name, number in (("stdout", 1), ("stderr", 2)):
        old = getattr(sys, name)
        if old is None or type(old.buffer) is not BufferedWriter:  # there is no buffer with -u
            continue
        raw = _ordered_file(other=3 - number)(number, "wb", closefd=False)
        raw.name = f"<{name}>"
        buffer = BufferedWriter(raw, raw._blksize)
        new = TextIOWrapper(buffer, old.encoding, old.errors, "\n", line_buffering=True)
        new.mode = "w"
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def _is_pipe(number):
    try:
        return stat.S_ISFIFO(os.fstat(number).st_mode)
    except OSError:
        return False


def _ordered_file(other):
    """Return a kind of FileIO for standard output or error. Before it writes, it waits a while until what was written
    to the other one has been read. Whoever reads neither is not waited for again."""
    # Variables of this function are there until the interpreter has written what is left at its very end.
    from fcntl import ioctl
    from time import sleep

    plain, is_fifo, fstat, closed = FileIO.write, stat.S_ISFIFO, os.fstat, OSError
    request, moments, moment, patience = FIONREAD, range(TRIES), MOMENT, PATIENCE
    unread, nothing = bytearray(4), bytes(4)  # filled in place: 0.24 µs instead of 0.55

    class OrderedFile(FileIO):
        patience = PATIENCE

        def write(self, data):
            try:
                ioctl(other, request, unread)
                if unread != nothing and self.patience:
                    self._catch_up()
            except closed:
                pass  # one of them is closed or not a pipe, and nobody reads what is in it
            return plain(self, data)

        def _catch_up(self):
            there = fstat(other)
            if not is_fifo(there.st_mode) or there.st_ino == fstat(self.fileno()).st_ino:
                return
            for _ in moments:
                sleep(moment)
                ioctl(other, request, unread)
                if unread == nothing:
                    self.patience = patience
                    return
            self.patience -= 1

    OrderedFile.__module__, OrderedFile.__name__, OrderedFile.__qualname__ = "_io", "FileIO", "FileIO"
    return OrderedFile
