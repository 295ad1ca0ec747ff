"""Holds the loaded libraries in huge pages, of which a fork and an exit have 512 times fewer to go through."""

import ctypes
import re

HUGE = 2 << 20
MADV_COLLAPSE = 25  # Linux 6.1; an older kernel refuses, and the pages stay as they are


def collapse():
    madvise = ctypes.CDLL(None).madvise
    with open("/proc/self/maps") as maps:
        private = re.findall(r"^(\w+)-(\w+) rw-p \S+ 00:00 0 ", maps.read(), re.MULTILINE)
    for start, end in private:
        first = -(-int(start, 16) // HUGE) * HUGE
        length = int(end, 16) // HUGE * HUGE - first
        if length > 0:
            madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), MADV_COLLAPSE)
