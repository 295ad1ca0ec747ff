"""The two drivers: how they fork run processes, and how a program gets from one to the other."""

import ctypes
import json
import os
import signal
import socket

import _sandbox_imports as imports
from _sandbox_driver import CHANNEL, CONVERSATION
from _sandbox_start import ANEW

# pandas looks for these when it is loaded, which is done before they are installed.
SOUGHT_BY_PANDAS = ("numexpr", "bottleneck")
PR_SET_DUMPABLE = 4
PR_GET_TID_ADDRESS = 40
SYS_CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)
CLONE_FLAGS = 0x8000 | 0x200000 | 0x1000000 | signal.SIGCHLD  # PARENT, CHILD_CLEARTID, CHILD_SETTID
STARTS = b"!"  # told to the process that has passed on a program
PEEK = socket.MSG_PEEK | socket.MSG_DONTWAIT
LIBC = ctypes.CDLL(None)


class LightDriver:
    """Announces the parked process, which passes a program on if it wants more than there is here."""

    def __init__(self, helper, full):
        self._helper, self._full = helper, full

    def wait_until_loaded(self):
        if not self._full.recv(1, socket.MSG_PEEK):
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
        request = _read_request(CHANNEL)
        program = json.loads(request)
        if self._wants_full_driver(program):
            # The streams wait in the channel for whoever runs the program.
            self._pass_on(request, imports.named_libraries(program["code"]))
        take_streams()
        os.close(self._parked)
        return program

    def _wants_full_driver(self, program):
        code = program["code"]
        if os.path.exists(ANEW):
            return False
        if "cell" not in program:
            if not imports.wants_more(code) or imports.names_early_settings(code):
                return False
            if any(os.path.exists(f"{directory}/{name}") for directory in CONVERSATION for name in SOUGHT_BY_PANDAS):
                return False
        # Where everything is loaded, a kernel lives long enough for its later cells to want it.
        return bool(imports.named_libraries(code) or _peek(self._full))

    def _pass_on(self, request, libraries):
        """Have the full driver run it, and end. Where that cannot be reached, only time is lost."""
        # The program may start before this process has ended, and must not find a way to the full driver here.
        set_dumpable(False)
        # A connection of this program's own: whoever has the other end learns from it if this process is gone.
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self._full, [bytes([_as_bits(libraries)])], [theirs.fileno()])
        except OSError:  # it has gone, or programs of the same user have all the descriptors that may be under way
            set_dumpable(True)
            return
        theirs.close()
        try:
            ours.sendall(len(request).to_bytes(4, "big") + request)
            os._exit(ours.recv(1) != STARTS)
        except OSError:
            os._exit(1)  # who was to run it has ended


class FullDriver:
    """Forks a run process for each program that is passed to it, once it has the libraries that the program names."""

    def __init__(self, light, shelf, loading):
        self._light, self._shelf, self._loading = light, shelf, loading
        self._libraries = None

    def load(self, names=imports.LOADED):
        """Load these, while the shelf is open."""
        if self._libraries is None:
            self._shelf.fill(["_sandbox_libraries"])
            from _sandbox_libraries import Libraries

            self._libraries = Libraries(self._shelf)
        self._libraries.load(names)

    def fork_run_processes(self):
        """Return in each run process."""
        if self._libraries is not None:
            self._light.send(b"!")  # everything is loaded
        while True:
            bits, passed, _, _ = socket.recv_fds(self._light, 1, 1)
            if not passed:
                os._exit(0)
            named = _of_bits(bits[0])
            if self._libraries is None or self._libraries.lacks(named):
                with self._loading:
                    self.load(named)
            if fork_away():
                break
            os.close(passed[0])
        self._asking = socket.socket(fileno=passed[0])

    def take_request(self):
        program = json.loads(_read_request(self._asking.fileno()))
        # What comes by the channel is not for this run if that is over: whoever asked is gone then.
        if _peek(self._asking) == b"":
            os._exit(1)
        take_streams()
        try:
            self._asking.send(STARTS)
        except BrokenPipeError:
            if "cell" not in program:  # all but the kernel are ended as soon as it has its streams
                os._exit(1)
        self._asking.detach()
        return program


def fork_full_driver(shelf, loading, ahead):
    """Return the full driver in a new process, and the light one in this one; once everything is loaded, if `ahead`."""
    here, there = socket.socketpair()
    helper = fork_beside()  # so that its children can be PID 1's
    if helper < 0:
        helper = os.fork()
    if helper:
        there.close()
        light = LightDriver(helper, here)
        if ahead:
            light.wait_until_loaded()
        return light
    here.close()
    full = FullDriver(there, shelf, loading)
    if ahead:
        full.load()
    return full


def _as_bits(libraries):
    return sum(1 << place for place, name in enumerate(imports.LOADED) if name in libraries)


def _of_bits(bits):
    return [name for place, name in enumerate(imports.LOADED) if bits >> place & 1]


def fork_away():
    """Fork a process whose parent is the parent of this one, and return whether this is the new one."""
    pid = fork_beside()
    if pid >= 0:
        return pid == 0
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


def fork_beside():
    """Like `os.fork`, but the parent of the new process is that of this one; -1 where that cannot be had.

    It spares the process in between, a whole copy of this one: there were 139 runs a second instead of 93."""
    number = ctypes.c_void_p()  # where the C library has the number of this thread, which is another one afterwards
    if SYS_CLONE is None or LIBC.prctl(PR_GET_TID_ADDRESS, ctypes.byref(number)) != 0:
        return -1
    python = ctypes.pythonapi  # does not let go of the interpreter's lock meanwhile
    python.PyOS_BeforeFork()
    # The last two are in another order on each kind of processor, which expects none as the other one.
    pid = python.syscall(*map(ctypes.c_long, (SYS_CLONE, CLONE_FLAGS, 0, 0)), number, number)
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid


def take_streams():
    """Take the streams of the run, which PID 1 sends, in place of those of the driver, and tell it who has them."""
    channel = socket.socket(fileno=CHANNEL)
    _, streams, _, _ = socket.recv_fds(channel, 1, 2)
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    channel.send(b"taken %d\n" % os.getpid())
    channel.detach()


def set_dumpable(yes):
    LIBC.prctl(PR_SET_DUMPABLE, int(yes))


def _peek(connection):
    """What the other end has said: nothing if it has gone, and None if it may still say something."""
    try:
        return connection.recv(1, PEEK)
    except BlockingIOError:
        return None


def _read_request(descriptor):
    return _read(descriptor, int.from_bytes(_read(descriptor, 4), "big"))


def _read(descriptor, length):
    data = bytearray()
    while len(data) < length:
        chunk = os.read(descriptor, length - len(data))
        if not chunk:
            os._exit(0)
        data += chunk
    return bytes(data)
