"""Output that comes out in the order in which it was written, though there are two pipes: whoever reads both cannot see
which of two lines came first when both are there."""

FIONREAD = 0x541B
TRIES, MOMENT = 200, 0.00002
PATIENCE = 5


def ordered_file():
    """Return a kind of FileIO for standard output and error. Before it writes, it waits a while until what was written
    to the other one has been read. Whoever reads neither is not waited for again."""
    # Variables of this function are there until the interpreter has written what is left at its very end.
    from _io import FileIO
    from fcntl import ioctl
    from os import fstat
    from stat import S_ISFIFO
    from time import sleep

    request, nothing, moments, moment, patience = FIONREAD, bytes(4), range(TRIES), MOMENT, PATIENCE

    class OrderedFile(FileIO):
        patience = PATIENCE

        def write(self, data):
            if self.patience:
                self._catch_up(3 - self.fileno())
            return FileIO.write(self, data)

        def _catch_up(self, other):
            try:
                if ioctl(other, request, nothing) == nothing:
                    return
                there = fstat(other)
                if not S_ISFIFO(there.st_mode) or there.st_ino == fstat(self.fileno()).st_ino:
                    return
                for _ in moments:
                    sleep(moment)
                    if ioctl(other, request, nothing) == nothing:
                        self.patience = patience
                        return
                self.patience -= 1
            except OSError:
                pass  # one of them is closed or not a pipe, and nobody reads what is in it

    OrderedFile.__module__, OrderedFile.__name__, OrderedFile.__qualname__ = "_io", "FileIO", "FileIO"
    return OrderedFile
