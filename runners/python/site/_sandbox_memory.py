"""Makes the loaded libraries cheap to fork, to read in the forked process, and to get rid of."""

import ctypes
import gc
import re
from contextlib import contextmanager

from _sandbox_native import immortalize, join_arenas

HUGE = 2 << 20
MADV_COLLAPSE = 25  # Linux 6.1; an older kernel refuses, and the pages stay as they are


@contextmanager
def side_by_side():
    """Put what is loaded inside the block together, in as few huge pages as it needs."""
    join_arenas(True)
    try:
        yield
    finally:
        join_arenas(False)


def settle():
    """Make everything that is loaded permanent: neither the collector nor references to it write to it again."""
    gc.collect()
    immortalize(gc.get_objects())
    gc.freeze()


def collapse():
    """Hold it in huge pages: a fork and an exit then have 512 times fewer pages to go through."""
    madvise = ctypes.CDLL(None).madvise
    with open("/proc/self/maps") as maps:
        private = re.findall(r"^(\w+)-(\w+) rw-p \S+ 00:00 0 ", maps.read(), re.MULTILINE)
    for start, end in private:
        first = -(-int(start, 16) // HUGE) * HUGE
        length = int(end, 16) // HUGE * HUGE - first
        if length > 0:
            madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), MADV_COLLAPSE)
