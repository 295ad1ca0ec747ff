"""The driver of the warm contract, `fork` kind: see runners/PROTOCOL.md, section 5.

It runs while the interpreter starts (`site` imports it by way of sandbox.pth), loads what programs use, and forks a
run process for every run. The run process returns from here, so it is the interpreter itself that goes on to run
/tmp/main.py: arguments, tracebacks, exit codes and the order of things at the end are native.

There are two drivers, because a fork costs more the more is loaded: with one, a program that prints a line took 48 ms
instead of 27, and 41 ms of processor time instead of 18. The *light* driver has a part of the standard library, and
what is parked is a fork of it. When a program wants more, that process passes it on to the *full* driver, a helper
that has the large libraries too and forks the process that runs it. It has all of them before the first program, or,
where little memory is to be taken, loads those that a program names when the first one does, which waits for it as it
would for importing them. A program that names settings which these libraries read when they are loaded, such as
PANDAS_FUTURE_INFER_STRING, stays with the light one and loads them anew. So does every program and kernel of a
conversation that has one of these libraries in another version: two versions do not go into one process.

What a program could see of it: all runs of a driver share the hash seed of strings, references to what was loaded ahead
are not counted, and a tool is registered with `sys.monitoring`.
"""

import atexit
import gc
import os
import sys

import _signal
from time import time_ns

import _sandbox_hooks
from _sandbox_input import give
from _sandbox_shelf import Shelf
from _sandbox_start import ANEW, PACKAGES, REPLACED

CHANNEL = 3
LIGHT_ONLY = 4  # open if the full driver is to load what programs name: how run.sh tells what the environment must not
DESCRIPTORS = 32  # more than there are
PROGRAM = "/tmp/main.py"
CONVERSATION = ("/data", PACKAGES, REPLACED)

first_cell = None  # for the kernel, if the program is one


def serve(shown):
    """Return in each run process, once it has its program. `shown` is what a plain run has loaded."""
    light = _is_open(LIGHT_ONLY)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # a program may send it, and it is no program's but its own
    shelf = Shelf(shown)
    loading = Loading(shelf)
    with loading:
        shelf.fill(["_sandbox_ending", "_sandbox_memory", "_sandbox_park"])
        from _sandbox_ending import Ending
        from _sandbox_imports import LIGHT
        from _sandbox_park import fork_full_driver, set_dumpable

        ending = Ending(PROGRAM)
        shelf.fill(LIGHT)
        atexit.unregister(sys.modules["logging"].shutdown)
        shelf.when_shown["logging"] = _begin_logging
        set_dumpable(False)
        if not light:
            driver = fork_full_driver(shelf, loading, ahead=True)
    if light:  # what both have is settled once, and so shared
        driver = fork_full_driver(shelf, loading, ahead=False)

    driver.fork_run_processes()
    os.setsid()
    set_dumpable(True)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    _renew_main()
    program = driver.take_request()
    ending.prepare(shelf.loaded)
    ending.watch()
    os.closerange(CHANNEL + ("cell" in program), DESCRIPTORS)
    _become_program(program)


class Loading:
    """What is loaded meanwhile is on the shelf afterwards, and is nothing that programs can write."""

    def __init__(self, shelf):
        self._shelf = shelf

    def __enter__(self):
        self._environment, self._path = dict(os.environ), list(sys.path)
        sys.path[:] = [directory for directory in self._path if directory not in CONVERSATION]
        gc.disable()
        _sandbox_hooks.Finder.shelf = None
        self._shelf.reveal()

    def __exit__(self, *_):
        from _sandbox_memory import settle

        sys.path[:] = self._path
        self._shelf.hide()
        _sandbox_hooks.Finder.shelf = self._shelf
        os.environ.clear()
        os.environ.update(self._environment)
        gc.enable()
        settle()


def _is_open(descriptor):
    """Close it, and return whether it was open."""
    try:
        os.close(descriptor)
    except OSError:
        return False
    return True


def _renew_main():
    """Make the program's namespace as new as its objects: one that lives for ever would never let go of them."""
    main = type(sys)("__main__")
    main.__loader__ = sys.modules["__main__"].__loader__
    main.__annotations__ = {}
    main.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = main


def _begin_logging():
    """Do what logging does when it is loaded: note the time, and wait for the end of the program."""
    logging = sys.modules["logging"]
    logging._startTime = time_ns()
    atexit.register(logging.shutdown)


def _become_program(request):
    global first_cell
    code = request["code"]
    if "cell" in request:
        first_cell, code = request, "import _sandbox_kernel\n_sandbox_kernel.serve()\n"
    elif "stdin" in request:
        give(request["stdin"])
    os.environ.update(request["env"])
    with open(PROGRAM, "wb") as file:
        file.write(code.encode())
