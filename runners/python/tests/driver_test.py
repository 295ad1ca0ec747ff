"""The races of the driver, each of them forced: a process is stopped, or ended, where the next step would go wrong.

Runs as PID 1 of a container of the image, as it does in tests/it/docker_driver.rs: processes that lose their parent
become its children, as they become those of sandbox-init. Both ends of the channel are here.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import unittest
from types import SimpleNamespace

import _sandbox_driver as driver
from _sandbox_native import fork_away

SOON = 0.5  # seconds in which what must not happen would have happened
PATIENCE = 20
SLOW_EXIT = "/tests/slow_exit.so"


class Pipe:
    def __init__(self):
        self.reading, self.writing = os.pipe()

    def read(self, length=100):
        """What comes, or nothing if it takes too long."""
        return os.read(self.reading, length) if self.has_some(PATIENCE) else None

    def has_some(self, seconds):
        return bool(select.select([self.reading], [], [], seconds)[0])

    def write(self, data):
        os.write(self.writing, data)


def tools(**others):
    """What the driver gets from its native part, without a library in it."""
    return SimpleNamespace(
        fork=fork_away,
        parse=json.loads,
        set_dumpable=lambda yes: None,
        wants_more=lambda code: True,
        names_early_settings=lambda code: False,
        share_memory=lambda: None,
        **others,
    )


def has_ended(pid, seconds):
    """Whether a child ends, and how."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    return False


class Driver:
    """A driver in a process of its own, and what it and its run processes report."""

    def __init__(self, make):
        self.requests, self.answers, self.loading, self.reports = Pipe(), Pipe(), Pipe(), Pipe()
        self.channel, channel = socket.socketpair()
        self.channel.settimeout(PATIENCE)
        self.pid = os.fork()
        if self.pid:
            channel.close()
            return
        with exiting():
            os.dup2(channel.fileno(), driver.CHANNEL)
            made = make(self)
            made.fork_run_processes()
            self.report("started " + made.take_request()["code"])

    def report(self, what):
        self.reports.write(what.encode() + b"\n")

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.channel.close()


@contextlib.contextmanager
def exiting():
    try:
        yield
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        os._exit(9)


def light(there):
    os.close(there.loading.writing)  # the full driver has loaded everything
    return driver.LightDriver(tools(), 77, there.requests.writing, there.answers.reading, there.loading.reading)


class ThePassing(unittest.TestCase):
    """The parked process hands its program to the full driver, and ends when it is told."""

    def test_waits_for_its_own_answer(self):
        there = Driver(light)
        self.addCleanup(there.close)
        os.close(there.loading.writing)
        there.answers.write(b"of somebody else")  # who was killed before it was read
        parked = int(there.channel.recv(100).split()[1])
        request = b'{"code": "print(1)", "env": {}}'
        there.channel.sendall(len(request).to_bytes(4, "big") + request)
        asked = there.requests.read()
        self.assertEqual(int.from_bytes(asked[:4], "big"), parked)
        self.assertFalse(has_ended(parked, SOON), "it took another's answer for its own")
        there.answers.write(asked[4:])
        self.assertTrue(has_ended(parked, PATIENCE))


class TheFullDriver(unittest.TestCase):
    """It runs what it is asked to, as long as whoever asks is there."""

    def start(self, take_streams=lambda channel: None):
        def full(there):
            def take(channel):
                there.report("took")
                take_streams(channel)

            made = tools(take_streams=take)
            return driver.FullDriver(made, there.requests.reading, there.answers.writing, there.loading.writing)

        there = Driver(full)
        self.addCleanup(there.close)
        return there

    def asking(self, code):
        """A process that has passed on a program."""
        pid = os.fork()
        if not pid:
            signal.pause()
            os._exit(0)
        with open(driver.PASSED_ON % pid, "w") as file:
            json.dump({"code": code, "env": {}}, file)
        return pid

    def end(self, pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def ask(self, there, pid):
        token = os.urandom(driver.TOKEN)
        there.requests.write(pid.to_bytes(4, "big") + token)
        return token

    def assert_next_is_run(self, there, before):
        """What was reported until a program that nobody interrupts has started is `before`."""
        pid = self.asking("next")
        self.addCleanup(self.end, pid)
        self.ask(there, pid)
        reports = b""
        while b"started" not in reports and (more := there.reports.read()):
            reports += more
        self.assertEqual(reports.decode().splitlines(), [*before, "took", "started next"])

    def test_does_not_touch_the_channel_for_a_run_that_is_over(self):
        there = self.start()
        gone = self.asking("late")
        self.end(gone)
        self.ask(there, gone)
        self.assert_next_is_run(there, [])

    def test_does_not_start_a_program_whose_run_ended_while_it_took_the_streams(self):
        go_on = Pipe()
        there = self.start(lambda channel: go_on.read(1))
        leaving = self.asking("late")
        self.ask(there, leaving)
        self.assertEqual(there.reports.read(), b"took\n")
        self.end(leaving)
        go_on.write(b"12")  # for the next one as well
        self.assert_next_is_run(there, [])

    def test_starts_a_program_only_after_its_answer(self):
        look, is_there = Pipe(), driver._is_there
        parent = os.getpid()

        def slowly(pid):
            # In the driver, which is our child, and not in what it has forked, which leads a session.
            if os.getsid(0) == os.getsid(parent):
                look.read(1)
            return is_there(pid)

        driver._is_there = slowly
        self.addCleanup(setattr, driver, "_is_there", is_there)
        there = self.start()
        pid = self.asking("one")
        self.addCleanup(self.end, pid)
        token = self.ask(there, pid)
        self.assertEqual(there.reports.read(), b"took\n")
        self.assertFalse(there.reports.has_some(SOON), "it started before the driver had answered")
        look.write(b"!")
        self.assertEqual(there.reports.read(), b"started one\n")
        self.assertTrue(there.answers.has_some(0), "it started before the answer")
        self.assertEqual(there.answers.read(), token)

    def test_ends_with_a_run_process_that_has_not_started_its_program(self):
        there = self.start(lambda channel: os._exit(3))
        pid = self.asking("one")
        self.addCleanup(self.end, pid)
        self.ask(there, pid)
        self.assertTrue(has_ended(there.pid, PATIENCE), "a run that was none would be taken for one")
        self.assertFalse(there.answers.has_some(0))


class TheFork(unittest.TestCase):
    def test_returns_where_its_process_has_its_parent(self):
        code = "import os, _sandbox_native as n; n.fork_away() or print(os.getppid(), flush=True)"
        environment = {**os.environ, "LD_PRELOAD": SLOW_EXIT}
        told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        self.assertEqual((told.stdout, told.stderr), (f"{os.getpid()}\n", ""))


if __name__ == "__main__":
    # The number of the channel is for nothing else.
    while os.open(os.devnull, os.O_RDONLY) < driver.CHANNEL:
        pass
    unittest.main(verbosity=2)
