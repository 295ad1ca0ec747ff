"""The driver of the warm contract, `fork` kind: see runners/PROTOCOL.md, section 5.

It runs while the interpreter starts (`site` imports it by way of sandbox.pth), loads what programs use, and forks a
run process for every run. The run process returns from here, so it is the interpreter itself that goes on to run
/tmp/main.py: arguments, tracebacks, exit codes and the order of things at the end are native.

There are two drivers, because a fork costs more the more is loaded. The *light* driver has a part of the standard
library, and what is parked is a fork of it. When a program wants more, that process passes it on to the *full* driver,
a helper that has the large libraries too and forks the process that runs it. If a conversation is waiting, the light
one parks at once, and the full one loads beside the first programs: nothing of it is open to them, and only those that
name what it loads wait for it. A program that names settings which these libraries read when they are loaded, such as
PANDAS_FUTURE_INFER_STRING, stays with the light one and loads them anew. So does every program and kernel of a
conversation that has one of these libraries in another version: two versions do not go into one process.

All runs of a driver share one thing that a program can see: the hash seed of strings.
"""

import gc
import os
import _signal as signal
import sys
from types import SimpleNamespace

import _sandbox_hooks
from _sandbox_input import give
from _sandbox_shelf import Shelf
from _sandbox_start import ANEW, PACKAGES, REPLACED

CHANNEL = 3
SOON = 4  # open if a conversation waits: how run.sh tells what the environment must not
DESCRIPTORS = 32  # more than there are
PROGRAM = "/tmp/main.py"
CONVERSATION = ("/data", PACKAGES, REPLACED)
# pandas looks for these when it is loaded, which is done before they are installed.
SOUGHT_BY_PANDAS = ("numexpr", "bottleneck")
PR_SET_DUMPABLE = 4
STARTS = b"!"

first_cell = None  # for the kernel, if the program is one


def serve(shown):
    """Return in each run process, once it has its program. `shown` is what a plain run has loaded."""
    soon = _is_open(SOON)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a program may send it, and it is no program's but its own
    environment, path = dict(os.environ), list(sys.path)
    sys.path[:] = [directory for directory in path if directory not in CONVERSATION]
    gc.disable()
    shelf = Shelf(shown)
    tools = _preload(shelf)
    tools.set_dumpable(False)
    ending = tools.Ending(PROGRAM)
    driver = _fork_full_driver(shelf, tools, soon)
    ending.prepare()
    shelf.hide()
    _sandbox_hooks.Finder.shelf = shelf
    sys.path[:] = path
    os.environ.clear()
    os.environ.update(environment)
    gc.enable()
    tools.settle()

    driver.fork_run_processes()
    os.setsid()
    tools.set_dumpable(True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _renew_main()
    program = driver.take_request()
    ending.watch()
    os.closerange(CHANNEL + ("cell" in program), DESCRIPTORS)
    _become_program(program)


def _preload(shelf):
    """Load what both drivers have, and return what they themselves need from then on."""
    shelf.fill(["_sandbox_imports", "_sandbox_ending", "_sandbox_memory", "ctypes", "socket"])
    import socket

    import _sandbox_imports as imports
    from _sandbox_ending import Ending
    from _sandbox_memory import settle
    from ctypes import CDLL

    shelf.fill(imports.LIGHT)
    from json import loads

    libc = CDLL(None)
    return SimpleNamespace(
        Ending=Ending,
        imports=imports,
        parse=loads,
        settle=settle,
        set_dumpable=lambda yes: libc.prctl(PR_SET_DUMPABLE, int(yes)),
        socket=socket,
        take_streams=lambda: _take_streams(socket),
    )


class LightDriver:
    """Announces the parked process, which passes a program on if it wants more than there is here."""

    def __init__(self, tools, helper, full, soon):
        self._tools, self._helper, self._full = tools, helper, full
        if not (soon or self._full.recv(1, self._tools.socket.MSG_PEEK)):  # waits until everything is loaded
            os._exit(1)

    def fork_run_processes(self):
        """Return in each run process."""
        while True:
            parked, self._parked = os.pipe()
            if fork_away():
                break
            os.close(self._parked)
            self._announce(parked)
            os.close(parked)
            while (first := _read(CHANNEL, 1)) == b"\0":
                pass  # the streams of a run that ended before it took them, which are closed by this
            if first + _read(CHANNEL, 4) != b"park\n":
                os._exit(1)

    def _announce(self, parked):
        pid = os.read(parked, 16)
        if not pid:
            os._exit(1)
        os.write(CHANNEL, b"ready %s %d\n" % (pid, self._helper))
        os.read(parked, 1)  # nothing, once the run process has its request or is gone: now the channel is ours

    def take_request(self):
        os.write(self._parked, b"%d" % os.getpid())
        request = _read(CHANNEL, int.from_bytes(_read(CHANNEL, 4), "big"))
        program = self._tools.parse(request)
        if self._wants_full_driver(program):
            self._pass_on(request)  # the streams wait in the channel for whoever runs the program
        self._tools.take_streams()
        os.close(self._parked)
        return program

    def _wants_full_driver(self, program):
        code, imports = program["code"], self._tools.imports
        if os.path.exists(ANEW):
            return False
        # A kernel lives long enough for its later cells to want more.
        if "cell" in program:
            return True
        if not imports.wants_more(code) or imports.names_early_settings(code):
            return False
        if any(os.path.exists(f"{directory}/{name}") for directory in CONVERSATION for name in SOUGHT_BY_PANDAS):
            return False
        return imports.names_libraries(code) or self._full_driver_is_ready()

    def _full_driver_is_ready(self):
        socket = self._tools.socket
        try:
            return bool(self._full.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False

    def _pass_on(self, request):
        """Have the full driver run it, and end. Without one, which should not happen, only time is lost."""
        # The program may start before this process has ended, and must not find a way to the full driver here.
        self._tools.set_dumpable(False)
        # A connection of this program's own: whoever has the other end learns from it if this process is gone.
        ours, theirs = self._tools.socket.socketpair()
        try:
            self._tools.socket.send_fds(self._full, [b"!"], [theirs.fileno()])
        except BrokenPipeError:
            self._tools.set_dumpable(True)
            return
        theirs.close()
        try:
            ours.sendall(len(request).to_bytes(4, "big") + request)
            os._exit(ours.recv(1) != STARTS)
        except OSError:
            os._exit(1)  # who was to run it has ended


class FullDriver:
    """Forks a run process for each program that is passed to it."""

    def __init__(self, tools, light):
        self._tools, self._light = tools, light

    def fork_run_processes(self):
        """Return in each run process."""
        self._light.send(b"!")  # everything is loaded
        while True:
            _, passed, _, _ = self._tools.socket.recv_fds(self._light, 1, 1)
            if not passed:
                os._exit(0)
            if fork_away():
                break
            os.close(passed[0])
        self._asking = self._tools.socket.socket(fileno=passed[0])

    def take_request(self):
        request = _read(self._asking.fileno(), int.from_bytes(_read(self._asking.fileno(), 4), "big"))
        program = self._tools.parse(request)
        # What comes by the channel is not for this run if that is over: whoever asked is gone then.
        if self._has_gone():
            os._exit(1)
        self._tools.take_streams()
        try:
            self._asking.send(STARTS)
        except BrokenPipeError:
            if "cell" not in program:  # all but the kernel are ended as soon as it has its streams
                os._exit(1)
        self._asking.detach()
        return program

    def _has_gone(self):
        try:
            return not self._asking.recv(1, self._tools.socket.MSG_PEEK | self._tools.socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False


def _fork_full_driver(shelf, tools, soon):
    """Return the full driver in a new process, and the light one in this one."""
    here, there = tools.socket.socketpair()
    helper = os.fork()
    if helper:
        there.close()
        return LightDriver(tools, helper, here, soon)
    here.close()
    shelf.fill(["_sandbox_libraries"])
    import _sandbox_libraries

    # If a conversation waits, it is known already whether it has other versions.
    if not (soon and os.path.exists(ANEW)):
        _sandbox_libraries.load(shelf)
    return FullDriver(tools, there)


def fork_away():
    """Fork a process whose parent is the parent of this one, and return whether this is the new one."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)  # it may have been killed in a scrub, and what it was to fork with it
        return False
    own = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == own:
        os.sched_yield()  # PID 1 takes its word for no process that is not its child
    return True


def _take_streams(socket):
    """Take the streams of the run, which PID 1 sends, in place of those of the driver, and tell it who has them."""
    channel = socket.socket(fileno=CHANNEL)
    _, streams, _, _ = socket.recv_fds(channel, 1, 2)
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    channel.send(b"taken %d\n" % os.getpid())
    channel.detach()


def _renew_main():
    """Make the program's namespace as new as its objects: one that lives for ever would never let go of them."""
    main = type(sys)("__main__")
    main.__loader__ = sys.modules["__main__"].__loader__
    main.__annotations__ = {}
    main.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = main


def _read(descriptor, length):
    data = bytearray()
    while len(data) < length:
        chunk = os.read(descriptor, length - len(data))
        if not chunk:
            os._exit(0)
        data += chunk
    return bytes(data)


def _is_open(descriptor):
    """Close it, and return whether it was open."""
    try:
        os.close(descriptor)
    except OSError:
        return False
    return True


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
