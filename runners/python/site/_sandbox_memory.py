"""Makes what is loaded cheap to read in a forked process.

Reading an object counts references to it, which copies the page of memory that it is in. The count is the first word of
every object in CPython, and since 3.12 an object whose lower half of it is IMMORTAL is not counted (PEP 683, and part
of the stable ABI of extensions). Other interpreters are left as they are, and slower.
"""

import ctypes
import gc
import io
import sys
from types import CodeType, FrameType, GeneratorType

IMMORTAL = b"\xff\xff\xff\xff"
KNOWN = sys.version_info >= (3, 12) and sys.byteorder == "little" and "t" not in sys.abiflags
# What is being executed ends some time, and what a program writes with is flushed when it goes.
MORTAL = FrameType, GeneratorType, io.IOBase


def settle():
    """Let everything that is loaded live for ever."""
    gc.collect()
    if KNOWN:
        for thing in gc.get_objects():
            _immortalize([thing])
            if not isinstance(thing, MORTAL):
                _immortalize(gc.get_referents(thing))
    gc.freeze()


def _immortalize(things):
    for thing in things:
        if isinstance(thing, MORTAL) or sys.getrefcount(thing) >= 1 << 30:
            continue
        ctypes.memmove(id(thing), IMMORTAL, len(IMMORTAL))
        # These may hold others that the collector knows nothing of.
        if type(thing) is tuple:
            _immortalize(thing)
        elif type(thing) is CodeType:
            _immortalize([thing.co_consts, thing.co_names, thing.co_filename, thing.co_name, thing.co_qualname])
