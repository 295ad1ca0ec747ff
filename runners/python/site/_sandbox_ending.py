"""Ends a run process without the part of the interpreter's shutdown that nobody can see.

When a program is over, the interpreter runs the exit functions, takes apart the program's modules, and then itself and
all that the driver has loaded. That last step visits every string and type there is, and in a forked process each
visit copies a page of memory: printing a line took 38 ms instead of 27 with it, pandas 491 instead of 228. So the last
of the exit functions takes apart what is the program's and leaves, if the exit code is known by then; otherwise
everything goes on as usual.
"""

import atexit
import ctypes
import gc
import os
import sys
from _io import TextIOWrapper, _IOBase
from weakref import ref

try:
    from sys import monitoring
except ImportError:  # before Python 3.12: programs end as usual
    monitoring = None

LIBC = ctypes.CDLL(None)
TOOL = 4  # an identifier that no known debugger or profiler takes


class Ending:
    """Made before anything else registers an exit function, so that it is the last one to run."""

    def __init__(self, program):
        self._program = program
        self._returned = False
        self._streams, self._not_its_own = (), frozenset()
        atexit.register(self._finish)

    def prepare(self, modules):
        """Take note of what is there before the program."""
        streams = sys.__stdout__, sys.__stderr__
        self._streams = *streams, *(stream.buffer for stream in streams if stream)  # a program may detach them
        self._not_its_own = modules

    def watch(self):
        """From now on, watch for the program's start, to be notified of its regular end."""
        if monitoring is not None:
            monitoring.use_tool_id(TOOL, "sandbox")
            monitoring.register_callback(TOOL, monitoring.events.PY_START, self._started)
            monitoring.register_callback(TOOL, monitoring.events.PY_RETURN, self._ended)
            monitoring.set_events(TOOL, monitoring.events.PY_START)

    def _started(self, code, _offset):
        if code.co_filename == self._program:
            monitoring.set_events(TOOL, monitoring.events.NO_EVENTS)
            monitoring.set_local_events(TOOL, code, monitoring.events.PY_RETURN)

    def _ended(self, _code, _offset, _value):
        tools = filter(monitoring.get_tool, range(6))
        if sys.gettrace() or sys.getprofile() or [*tools] != [TOOL]:
            atexit.unregister(self._finish)  # what the interpreter still does is theirs to see
        self._returned = True

    def _finish(self):
        streams, self._streams = self._streams, ()  # the interpreter flushes them as well when nothing has them
        _flush_streams(streams)
        code = self._exit_code()
        if code is None:
            return
        atexit._clear()  # this was the last one, and they hold what is theirs
        sys.last_exc = sys.last_value = sys.last_traceback = None
        _drop(name for name in list(sys.modules) if name == "__main__" or name not in self._not_its_own)
        _close_files()
        _flush_streams(streams)
        LIBC.fflush(None)
        os._exit(code)

    def _exit_code(self):
        """The exit code, if it is known."""
        error = getattr(sys, "last_exc", None)
        if not _has_written():
            return None  # the interpreter says so, and has an exit code for it
        if self._returned:
            return 0
        if isinstance(error, Exception) and sys.excepthook is sys.__excepthook__ and error.__traceback__ is not None:
            frame = error.__traceback__.tb_frame
            if frame.f_code.co_filename == self._program and frame.f_back is None:
                return 1  # it went all the way up through the program
        return None


def _has_written():
    """Whether the streams hold nothing that cannot be written. What becomes of others that the program has put in
    their place is known only when the interpreter has flushed them."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is None:
                continue
            if type(stream) is not TextIOWrapper:
                return False
            if not stream.closed:
                stream.flush()
    except (OSError, ValueError):
        return False
    return True


def _drop(names):
    """Take modules apart as the interpreter does: drop them, and then what is in those that something keeps alive."""
    modules = [sys.modules.pop(name) for name in names]
    alive = [ref(module) for module in modules if isinstance(module, type(sys))]
    del modules
    gc.collect()
    for module in reversed(alive):
        if there := module():
            _clear(vars(there))
    gc.collect()


def _clear(namespace):
    """In the order of the interpreter, which begins with what is private."""
    for private in (True, False):
        for name in list(namespace):
            if name != "__builtins__" and (name[:1] == "_" != name[1:2]) >= private:
                namespace[name] = None


def _flush_streams(streams):
    for stream in streams:
        try:
            stream.flush()
        except Exception:
            pass  # closed, detached or broken, which is no news


def _close_files():
    """Close the files that are still held by something, such as a library."""
    for thing in gc.get_objects():  # what was loaded ahead is not among them
        if isinstance(thing, _IOBase):
            try:
                thing.close()
            except Exception:
                pass  # as the interpreter has it
