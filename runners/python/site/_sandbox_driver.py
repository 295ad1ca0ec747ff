"""The driver of the warm contract, `fork` kind: see runners/PROTOCOL.md, section 5.

It runs while the interpreter starts (`site` imports it by way of sandbox.pth), loads what programs use, and forks a
run process for every run. The run process returns from here, so it is the interpreter itself that goes on to run
/tmp/main.py: arguments, tracebacks, exit codes and the order of things at the end are native.

There are two drivers, because a fork costs more the more is loaded. The *light* driver has a part of the standard
library, and what is parked is a fork of it. When a program wants more, that process passes it on to the *full* driver,
a helper that has the large libraries too and forks the process that runs it. If a conversation is waiting, the light
one parks at once, and the full one loads beside the first programs, at its leisure: nothing of it is open to them, and
only those that name what it loads wait for it. A program that names settings which these libraries read when they are
loaded, such as PANDAS_FUTURE_INFER_STRING, stays with the light one and loads them anew. So does every program and
kernel of a conversation that has one of these libraries in another version: two versions do not go into one process.

All runs of a driver share one thing that a program can see: the hash seed of strings.
"""

import _signal
import atexit
import gc
import os
import sys
from types import SimpleNamespace

from _sandbox_input import give
from _sandbox_shelf import Shelf
from _sandbox_start import ANEW, PACKAGES, REPLACED

CHANNEL = 3
SOON = 4  # open if a conversation waits: how run.sh tells what the environment must not
DESCRIPTORS = 32  # more than there are
PROGRAM = "/tmp/main.py"
PASSED_ON = "/tmp/.passed-on-%d"
CONVERSATION = ("/data", PACKAGES, REPLACED)
# pandas looks for these when it is loaded, which is done before they are installed.
SOUGHT_BY_PANDAS = ("numexpr", "bottleneck")
PR_SET_DUMPABLE = 4
TOKEN = 16  # how long a word is by which an answer is known to be meant

first_cell = None  # for the kernel, if the program is one


def serve(shown):
    """Return in each run process, once it has its program. `shown` is what a plain run has loaded."""
    soon = _closed(SOON)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # a program may send it, and it is no program's but its own
    environment, path = dict(os.environ), list(sys.path)
    sys.path[:] = [directory for directory in path if directory not in CONVERSATION]
    gc.disable()
    shelf = Shelf(shown)
    shelf.record()
    tools = _preload(shelf)
    tools.set_dumpable(False)
    driver = _fork_full_driver(shelf, tools, soon)
    sys.path[:] = path
    shelf.close()
    os.environ.clear()
    os.environ.update(environment)
    atexit.register(tools.call_unseen, shelf.hide_for_good)
    gc.enable()
    tools.settle()
    ending = tools.Ending(PROGRAM, shelf)  # must not live forever
    ending.prepare()
    gc.freeze()
    tools.collapse()

    driver.fork_run_processes()
    tools.set_dumpable(True)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    _renew_main()
    ending.watch()
    _rehearse(tools.parse)
    program = driver.take_request()
    _close_all_but(program)
    driver.settle_in()
    _become_program(program)


class LightDriver:
    """Announces the parked process, which passes a program on if it wants more than there is here."""

    def __init__(self, tools, helper, requests, answers, loading):
        self._tools, self._helper, self._requests, self._answers = tools, helper, requests, answers
        self._loading = loading

    def fork_run_processes(self):
        """Return in each run process."""
        self._full_driver_is_ready()  # waits, unless a conversation does
        os.set_blocking(self._loading, False)
        while self._forked():
            while (first := _read(CHANNEL, 1)) == b"\0":
                pass  # the streams of a run that ended before it took them, which are closed by this
            if first + _read(CHANNEL, 4) != b"park\n":
                os._exit(1)

    def _forked(self):
        waiting, self._parked = os.pipe()
        if not self._tools.fork():
            os.close(waiting)
            os.setsid()
            return False
        os.close(self._parked)
        pid = os.read(waiting, 16)
        if not pid:
            os._exit(1)
        os.write(CHANNEL, b"ready %s %d\n" % (pid, self._helper))
        os.read(waiting, 1)  # nothing, once the run process has its request or is gone: now the channel is ours
        os.close(waiting)
        return True

    def settle_in(self):
        """Do nothing: so little memory is freed in no time."""

    def take_request(self):
        os.write(self._parked, b"%d" % os.getpid())
        length = _read(CHANNEL, 4)
        request = _read(CHANNEL, int.from_bytes(length, "big"))
        program = self._tools.parse(request)
        if self._wants_full_driver(program):
            self._pass_on(request)  # the streams wait in the channel for whoever runs the program
        self._tools.take_streams(CHANNEL)
        os.close(self._parked)
        return program

    def _wants_full_driver(self, program):
        code = program["code"]
        if os.path.exists(ANEW):
            return False
        # A kernel lives long enough for its later cells to want more.
        if "cell" in program:
            return True
        if not self._tools.wants_more(code) or self._tools.names_early_settings(code):
            return False
        if any(os.path.exists(f"{directory}/{name}") for directory in CONVERSATION for name in SOUGHT_BY_PANDAS):
            return False
        return self._full_driver_is_ready() or self._tools.names_libraries(code)

    def _full_driver_is_ready(self):
        try:
            return not os.read(self._loading, 1)
        except BlockingIOError:
            return False

    def _pass_on(self, request):
        """Have the full driver run it, and end. Without one, which should not happen, only time is lost."""
        # The program may start before this process has ended, and must not find a way to the full driver here.
        self._tools.set_dumpable(False)
        # What is half in a pipe when the run is over would stay there, whereas a scrub removes files.
        with open(PASSED_ON % os.getpid(), "wb") as file:
            file.write(request)
        token = os.urandom(TOKEN)
        try:
            os.write(self._requests, os.getpid().to_bytes(4) + token)
            # An earlier process may have been killed before it read its own answer.
            while answer := os.read(self._answers, TOKEN):
                if answer == token:
                    os._exit(0)
        except BrokenPipeError:
            pass
        _taken(PASSED_ON % os.getpid())
        self._tools.set_dumpable(True)


class FullDriver:
    """Forks a run process for each program that is passed to it."""

    def __init__(self, tools, requests, answers, loaded):
        self._tools, self._requests, self._answers, self._loaded = tools, requests, answers, loaded

    def fork_run_processes(self):
        """Return in each run process."""
        os.close(self._loaded)
        while self._forked(int.from_bytes(_read(self._requests, 4)), _read(self._requests, TOKEN)):
            pass

    def _forked(self, asking, token):
        (waiting, telling), (starting, letting) = os.pipe(), os.pipe()
        if not self._tools.fork():
            os.close(waiting)
            os.close(letting)
            os.setsid()
            self._asking, self._telling, self._starting = asking, telling, starting
            return False
        os.close(telling)
        os.close(starting)
        told = os.read(waiting, 1)  # nothing, if it gave up because the run has ended
        if _is_there(asking):
            if not told:
                os._exit(1)
            os.write(self._answers, token)
        elif told:
            os.write(letting, b"!")  # the run has ended since
        os.close(waiting)
        os.close(letting)
        return True

    def settle_in(self):
        self._tools.share_memory()

    def take_request(self):
        request = _taken(PASSED_ON % self._asking)
        if not request or not _is_there(self._asking):
            os._exit(1)  # what comes by the channel now is not for this run
        self._tools.take_streams(CHANNEL)  # PID 1 knows by this who runs the program
        try:
            os.write(self._telling, b"!")
        except BrokenPipeError:
            pass  # a kernel needs no driver, which PID 1 has ended by now
        if os.read(self._starting, 1):  # nothing, when it is time to start
            os._exit(1)
        return self._tools.parse(request)


def _preload(shelf):
    """Load what both drivers have, and return what they themselves need from then on."""
    shelf.fill("ctypes")
    from _sandbox_imports import LIGHT, names_early_settings, names_libraries, wants_more
    from _sandbox_memory import collapse, settle, side_by_side

    for name in LIGHT:
        shelf.fill(name)

    from json import loads

    from _sandbox_ending import LIBC, Ending
    from _sandbox_native import call_unseen, fork_away, share_memory, take_streams

    return SimpleNamespace(
        call_unseen=call_unseen,
        collapse=collapse,
        fork=fork_away,
        parse=loads,
        set_dumpable=lambda yes: LIBC.prctl(PR_SET_DUMPABLE, int(yes)),
        settle=settle,
        share_memory=share_memory,
        take_streams=take_streams,
        side_by_side=side_by_side,
        names_early_settings=names_early_settings,
        names_libraries=names_libraries,
        wants_more=wants_more,
        Ending=Ending,
    )


def _fork_full_driver(shelf, tools, soon):
    """Return the full driver in a new process, and the light one in this one."""
    (taking, passing), (hearing, answering), (loading, loaded) = os.pipe(), os.pipe(), os.pipe()
    helper = os.fork()
    if helper:
        for descriptor in (taking, answering, loaded):
            os.close(descriptor)
        os.set_blocking(loading, not soon)
        return LightDriver(tools, helper, passing, hearing, loading)
    for descriptor in (passing, hearing, loading):
        os.close(descriptor)
    from _sandbox_libraries import load

    if soon:
        from _sandbox_pace import Pace

        shelf.before_each = Pace(taking).breathe
    # If a conversation waits, it is known already whether it has other versions.
    if not (soon and os.path.exists(ANEW)):
        with tools.side_by_side():
            load(shelf)
    return FullDriver(tools, taking, answering, loaded)


def _renew_main():
    """Make the program's namespace as new as its objects: the frozen one would keep them from finalisation."""
    main = type(sys)("__main__")
    main.__loader__ = sys.modules["__main__"].__loader__
    main.__annotations__ = {}
    main.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = main


def _rehearse(parse):
    """Do once what every run does: a fork copies memory that is written to, and what is copied now is ready then."""
    request = parse('{"code": "def f(x):\\n    return [x, str(x)]\\nf(1)", "env": {}}')
    exec(compile(request["code"], "rehearsal", "exec"), {})


def _read(descriptor, length):
    data = bytearray()
    while len(data) < length:
        chunk = os.read(descriptor, length - len(data))
        if not chunk:
            os._exit(0)
        data += chunk
    return bytes(data)


def _taken(path):
    """Read and remove a file that is nobody else's business; nothing, if it has gone."""
    try:
        with open(path, "rb") as file:
            os.unlink(path)
            return file.read()
    except FileNotFoundError:
        return b""


def _is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _closed(descriptor):
    """Close it, and return whether it was open."""
    try:
        os.close(descriptor)
    except OSError:
        return False
    return True


def _close_all_but(program):
    """Close the driver's descriptors. Only a kernel keeps one, its channel."""
    os.closerange(CHANNEL + ("cell" in program), DESCRIPTORS)


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
