"""Ends a run process without the part of the interpreter's shutdown that nobody can see.

When a program is over, the interpreter runs the exit functions, takes apart the program's modules, `sys` and
`builtins`, and then itself. That last step visits every string and type there is, and in a forked process each
visit copies a page of memory: 25 ms for an interpreter with pandas in it. The process leaves just before that, if the
exit code is known by then; otherwise everything goes on as usual.

What was there before the program lives forever (see _sandbox_memory.py). So when the interpreter has dropped all else,
what the program has attached to modules is dropped here, since there may be files among it, and what is left in the
two streams is written out.
"""

import atexit
import builtins
import ctypes
import gc
import sys

from _io import TextIOWrapper
from _sandbox_native import call_unseen
from _weakref import ref
from sys import monitoring

TOOL = 4  # an identifier that no known debugger or profiler takes
LIBC = ctypes.CDLL(None)


class Ending:
    """Dropped by the interpreter after the namespace of `builtins`, which is the very last one: by then, no built-in
    function has its name any more."""

    def __init__(self, program, shelf):
        self._program = program
        self._shelf = shelf
        self._main_lives = _nothing
        self._returned = False
        self._exit_code = None
        self._streams = ()
        self._flush, self._leave = LIBC.fflush, LIBC._exit
        self._referrers, self._collect = gc.get_referrers, gc.collect

    def prepare(self):
        """Be there at the end. The exit function should be the first one registered, and so the last one run."""
        atexit.register(call_unseen, self._settle)
        streams = sys.__stdout__, sys.__stderr__
        self._streams = *streams, *(stream.buffer for stream in streams)  # a program may have detached them

    def watch(self):
        """From now on, watch for the program's start, to be notified of its regular end."""
        spec = builtins.__spec__
        builtins.__spec__ = type(spec)(spec.name, spec.loader, origin=spec.origin, loader_state=self)  # not immortal
        monitoring.use_tool_id(TOOL, "sandbox")
        monitoring.register_callback(TOOL, monitoring.events.PY_START, self._started)
        monitoring.register_callback(TOOL, monitoring.events.PY_RETURN, self._ended)
        monitoring.set_events(TOOL, monitoring.events.PY_START)

    def _started(self, code, _offset):
        if code.co_filename == self._program:
            monitoring.set_events(TOOL, monitoring.events.NO_EVENTS)
            monitoring.set_local_events(TOOL, code, monitoring.events.PY_RETURN)

    def _ended(self, _code, _offset, _value):
        self._returned = True

    def _settle(self):
        loader = getattr(sys.modules.get("__main__"), "__loader__", None)
        if hasattr(loader, "path"):
            self._main_lives = ref(loader)  # nothing else holds it, and a namespace itself cannot be watched
        if not self._has_written():
            pass  # the interpreter says so, and has an exit code for it
        elif self._returned:
            self._exit_code = 0
        elif sys.excepthook is sys.__excepthook__ and self._has_failed(getattr(sys, "last_exc", None)):
            self._exit_code = 1

    def _has_written(self):
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

    def _has_failed(self, error):
        """Whether this error, not an interrupt, went all the way up through the program."""
        if not isinstance(error, Exception) or error.__traceback__ is None:
            return False
        frame = error.__traceback__.tb_frame
        return frame.f_code.co_filename == self._program and frame.f_back is None

    def _let_go(self):
        """Drop what hangs on modules that nobody takes apart, and the program's namespace if something keeps it alive.
        There is only the latter where a function of the program has taken the place of one of a library."""
        dropped = self._shelf.drop_additions()
        if loader := self._main_lives():
            dropped = True
            for namespace in self._referrers(loader):
                if namespace.__class__ is {}.__class__ and namespace.get("__loader__") is loader:
                    namespace.clear()
        if dropped:
            self._collect()

    def __del__(self):
        self._let_go()
        for stream in self._streams:
            try:
                stream.flush()
            except:  # closed, detached or broken, which is no news; errors have no names any more
                pass
        if self._exit_code is not None:
            self._flush(None)
            self._leave(self._exit_code)


def _nothing():
    pass
