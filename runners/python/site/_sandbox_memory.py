"""Makes what is loaded cheap to read in a forked process: a run with pandas has 2,160 page faults instead of 4,709.

Reading an object counts references to it, which copies the page of memory that it is in. The count is the first word of
every object in CPython, and since 3.12 an object whose lower half of it is IMMORTAL is not counted (PEP 683, and part
of the stable ABI of extensions). Other interpreters are left as they are, and slower.
"""

import gc
import sys
from _io import _IOBase
from ctypes import c_uint32
from sys import getrefcount
from types import CodeType, FrameType, GeneratorType

IMMORTAL = 0xFFFFFFFF
MEMORY = (c_uint32 * (1 << 45)).from_address(0)  # all that a process can have, in halves of words
MANY = 1 << 30  # no object that is counted has as many references
CHUNK = 1000
KNOWN = sys.version_info >= (3, 12) and sys.byteorder == "little" and "t" not in sys.abiflags
# What is being executed ends some time, and what a program writes with is flushed when it goes.
MORTAL = FrameType, GeneratorType, _IOBase


def settle():
    """Let everything that is loaded live for ever."""
    gc.collect()
    if KNOWN:
        lasting = [thing for thing in gc.get_objects() if not isinstance(thing, MORTAL)]
        _immortalize(lasting)
        for start in range(0, len(lasting), CHUNK):
            _immortalize(gc.get_referents(*lasting[start : start + CHUNK]))
    gc.freeze()


def _immortalize(things):
    for thing in things:
        if getrefcount(thing) >= MANY or isinstance(thing, MORTAL):
            continue
        MEMORY[id(thing) >> 2] = IMMORTAL
        # These may hold others that the collector knows nothing of.
        if type(thing) is tuple:
            _immortalize(thing)
        elif type(thing) is CodeType:
            _immortalize([thing.co_consts, thing.co_names, thing.co_filename, thing.co_name, thing.co_qualname])
