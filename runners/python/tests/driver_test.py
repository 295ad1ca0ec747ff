"""The races of the driver, each of them forced: a process is stopped, or ended, where the next step would go wrong.

Runs as PID 1 of a container of the image, as it does in tests/it/docker_driver.rs: processes that lose their parent
become its children, as they become those of sandbox-init. Both ends of the channel are here.
"""

import contextlib
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import unittest

import _sandbox_park as park

SOON = 0.5  # seconds in which what must not happen would have happened
PATIENCE = 20
SLOW_EXIT = "/tests/slow_exit.so"


def has_some(connection, seconds):
    return bool(select.select([connection], [], [], seconds)[0])


def end_of(pid, seconds):
    """The exit code of a child, or nothing if it does not end."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if (ended := os.waitpid(pid, os.WNOHANG))[0]:
            return os.waitstatus_to_exitcode(ended[1])
        time.sleep(0.01)
    return None


def pair():
    connections = socket.socketpair()
    for connection in connections:
        connection.settimeout(PATIENCE)
    return connections


class Driver:
    """A driver in a process of its own, and what it and its run processes report."""

    def __init__(self, make):
        (self.other, other), (self.reports, self._reports), (self.channel, channel) = pair(), pair(), pair()
        self.pid = os.fork()
        if self.pid:
            for connection in (other, channel):
                connection.close()
            return
        with exiting():
            os.dup2(channel.fileno(), park.CHANNEL)
            self.other.close()
            for connection in (other, channel):
                connection.setblocking(True)
            made = make(self, other)
            made.fork_run_processes()
            self.report("started " + made.take_request()["code"])

    def report(self, what):
        self._reports.sendall(what.encode() + b"\n")

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        for connection in (self.channel, self.other, self.reports, self._reports):
            connection.close()


@contextlib.contextmanager
def exiting():
    try:
        yield
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        os._exit(9)


def send_all_that_may_be_under_way():
    """As programs of another sandbox may: descriptors that nobody has received yet are counted for the user."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    sender, _ = held = socket.socketpair()
    with contextlib.suppress(OSError):
        while True:
            socket.send_fds(sender, [b"."], [0])
    return held


class ThePassing(unittest.TestCase):
    """The parked process hands its program to the full driver, and ends when it is told."""

    def start(self, with_full_driver=True, before=lambda: None):
        def light(there, full):
            there.held = before()
            park.take_streams = lambda: there.report("took")
            if not with_full_driver:
                there.other.close()
            made = park.LightDriver(77, full)
            made._wants_full_driver = lambda program: True
            return made

        there = Driver(light)
        self.addCleanup(there.close)
        if not with_full_driver:
            there.other.close()
        parked = int(there.channel.recv(100).split()[1])
        request = b'{"code": "print(1)", "env": {}}'
        request = len(request).to_bytes(4, "big") + request
        there.channel.sendall(request)
        return there, parked, request

    def test_ends_when_its_program_starts(self):
        there, parked, request = self.start()
        _, passed, _, _ = socket.recv_fds(there.other, 1, 1)
        with socket.socket(fileno=passed[0]) as asking:
            self.assertEqual(asking.recv(100), request)
            self.assertIsNone(end_of(parked, SOON), "it has not been told")
            asking.send(park.STARTS)
            self.assertEqual(end_of(parked, PATIENCE), 0)
        self.assertFalse(has_some(there.reports, 0))

    def test_fails_if_nobody_runs_its_program(self):
        there, parked, _ = self.start()
        _, passed, _, _ = socket.recv_fds(there.other, 1, 1)
        os.close(passed[0])
        self.assertEqual(end_of(parked, PATIENCE), 1, "a run that was none would be taken for one")

    def test_runs_its_program_if_there_is_no_full_driver(self):
        self.assert_is_run_here(with_full_driver=False)

    def test_runs_its_program_if_no_descriptor_may_be_sent(self):
        self.assert_is_run_here(before=send_all_that_may_be_under_way)

    def assert_is_run_here(self, **how):
        there, _, _ = self.start(**how)
        reports = b""
        while b"started" not in reports and (more := there.reports.recv(100)):
            reports += more
        self.assertEqual(reports, b"took\nstarted print(1)\n")


class Libraries:
    """Stands for those of the full driver, and reports what is loaded when."""

    def __init__(self, there):
        self._there, self._has = there, {"standard", "numpy"}

    def lacks(self, names):
        return not self._has.issuperset(names)

    def load(self, names):
        self._has.update(names)
        self._there.report(f"loaded {' '.join(names)}")


class TheFullDriver(unittest.TestCase):
    """It runs what it is asked to, as long as whoever asks is there."""

    def start(self, while_taking=lambda: None):
        def full(there, light):
            def take():
                there.report("took")
                while_taking()

            park.take_streams = take
            made = park.FullDriver(light, None, contextlib.nullcontext())
            made._libraries = Libraries(there)
            return made

        there = Driver(full)
        self.addCleanup(there.close)
        self.assertEqual(there.other.recv(1), b"!")  # everything is loaded
        return there

    def ask(self, there, code, libraries=()):
        """Pass on a program, and give the connection that a parked process would have."""
        ours, theirs = pair()
        theirs.setblocking(True)
        socket.send_fds(there.other, [bytes([park._as_bits(libraries)])], [theirs.fileno()])
        theirs.close()
        request = json.dumps({"code": code, "env": {}}).encode()
        ours.sendall(len(request).to_bytes(4, "big") + request)
        return ours

    def assert_next_is_run(self, there, before):
        """What was reported until a program that nobody interrupts has started is `before`."""
        with self.ask(there, "next"):
            reports = b""
            while b"started" not in reports and (more := there.reports.recv(100)):
                reports += more
        self.assertEqual(reports.decode().splitlines(), [*before, "took", "started next"])

    def test_does_not_touch_the_channel_for_a_run_that_is_over(self):
        there = self.start()
        os.kill(there.pid, signal.SIGSTOP)  # as while it is loading
        self.ask(there, "late").close()
        os.kill(there.pid, signal.SIGCONT)
        self.assert_next_is_run(there, [])

    def test_does_not_start_a_program_whose_run_ended_while_it_took_the_streams(self):
        waiting, going_on = pair()
        there = self.start(lambda: waiting.recv(1))
        leaving = self.ask(there, "late")
        self.assertEqual(there.reports.recv(100), b"took\n")
        leaving.close()
        going_on.send(b"12")  # for the next one as well
        self.assert_next_is_run(there, [])

    def test_tells_that_a_program_starts(self):
        there = self.start()
        with self.ask(there, "one") as asking:
            self.assertEqual(asking.recv(1), park.STARTS)

    def test_loads_what_a_program_names_before_it_starts_and_once(self):
        there = self.start()
        for before in (["loaded numpy pandas"], []):
            with self.ask(there, "one", {"pandas", "numpy"}):
                reports = b""
                while b"started" not in reports and (more := there.reports.recv(100)):
                    reports += more
            self.assertEqual(reports.decode().splitlines(), [*before, "took", "started one"])

    def test_tells_if_its_process_ends_instead(self):
        there = self.start(lambda: os._exit(3))
        with self.ask(there, "one") as asking:
            self.assertEqual(asking.recv(1), b"")


class TheShelf(unittest.TestCase):
    """In an interpreter of its own, since it hides what it has loaded for good."""

    def test_hands_out_what_it_has_loaded_as_an_import_would(self):
        code = """
import sys, _sandbox_hooks
from _sandbox_shelf import Shelf
shelf = Shelf(sys.modules)
shelf.fill(["json", "xml.etree.ElementTree", "zlib"])
there = sys.modules["json"], sys.modules["zlib"]
shelf.hide()
_sandbox_hooks.Finder.shelf = shelf
print("json" in sys.modules, "json.decoder" in sys.modules)
import json, xml, zlib
print((json, zlib) == there, "json.decoder" in sys.modules, hasattr(xml, "etree"))
print(type(json.__spec__.loader).__name__, json.__spec__.loader is json.__loader__, vars(json.__loader__).keys())
import xml.etree.ElementTree
print(hasattr(xml, "etree"))
"""
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        seen = ["False False", "True True False", "SourceFileLoader True dict_keys(['name', 'path'])", "True"]
        self.assertEqual((told.stdout.splitlines(), told.stderr), (seen, ""))


    def test_loads_more_when_it_is_open_again(self):
        code = """
import sys, _sandbox_hooks
from _sandbox_shelf import Shelf
shelf = Shelf(sys.modules)
shelf.fill(["xml.dom"])
shelf.hide()
shelf.reveal()
print("xml.dom" in sys.modules, hasattr(sys.modules["xml"], "dom"))
shelf.fill(["xml.dom.minidom"])
shelf.hide()
_sandbox_hooks.Finder.shelf = shelf
print("xml" in sys.modules, "xml.dom" in shelf.loaded)
import xml
print(hasattr(xml, "dom"))
import xml.dom
print(hasattr(xml.dom, "minidom"), "xml.dom.minidom" in sys.modules)
import xml.dom.minidom
print(hasattr(xml.dom, "minidom"), "xml.dom.xmlbuilder" in sys.modules)
"""
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        seen = ["True True", "False True", "False", "False False", "True True"]
        self.assertEqual((told.stdout.splitlines(), told.stderr), (seen, ""))


class TheFork(unittest.TestCase):
    def test_returns_where_its_process_has_its_parent(self):
        environment = {**os.environ, "LD_PRELOAD": SLOW_EXIT}
        for way in ("pass", "d.SYS_CLONE = None"):
            code = f"import os, _sandbox_park as d; {way}; d.fork_away() and print(os.getppid(), flush=True)"
            told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
            self.assertEqual((told.stdout, told.stderr), (f"{os.getpid()}\n", ""), way)

    def test_makes_a_process_whose_threads_know_its_first_one(self):
        code = """
import os, signal, threading, _sandbox_park as d
if d.fork_away():
    main = threading.main_thread().ident
    signal.signal(signal.SIGUSR1, lambda *_: print(threading.get_native_id() == os.getpid(), flush=True))
    thread = threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGUSR1))
    thread.start()
    thread.join()
else:
    os.read(0, 1)
"""
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual((told.stdout, told.stderr), ("True\n", ""))


if __name__ == "__main__":
    # The number of the channel is for nothing else.
    while os.open(os.devnull, os.O_RDONLY) < park.CHANNEL:
        pass
    unittest.main(verbosity=2)
