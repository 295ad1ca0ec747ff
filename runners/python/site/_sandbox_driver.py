"""The driver of the warm contract, `fork` kind: see runners/PROTOCOL.md, section 5.

It runs while the interpreter starts (`site` imports it by way of sandbox.pth), loads libraries, and forks a run
process for every run. The run process returns from here, and so it is the interpreter itself that goes on to run
/tmp/main.py: arguments, tracebacks, exit codes and the order of things at the end are native.

What all runs of a driver share, and a program can tell: the hash seed of strings.
"""

import atexit
import gc
import io
import os
import sys

from _sandbox_shelf import Shelf

CHANNEL = 3
PROGRAM = "/tmp/main.py"
PR_SET_DUMPABLE = 4


def serve(shown):
    """Return in each run process, once it has its program. `shown` is what a plain run has loaded."""
    environment = dict(os.environ)
    gc.disable()
    shelf = Shelf(shown)
    shelf.record()
    set_dumpable, parse, reseed, ending, collapse = _preload(shelf)
    shelf.close()
    os.environ.clear()
    os.environ.update(environment)
    _spare_from_teardown(shelf)
    ending.prepare()
    gc.enable()
    gc.collect()
    gc.freeze()  # the collector never again touches what is loaded, and the run processes share its memory
    collapse()
    set_dumpable(False)
    while True:
        request = _park(set_dumpable)
        if request is not None:
            break
    _become_program(parse(request))
    reseed()
    ending.watch()


def _preload(shelf):
    """Load what takes long, and touch the parts of it that are slow the first time."""
    for name in ("ctypes", "json", "asyncio", "statistics", "subprocess", "urllib.request"):
        shelf.fill(name)
    shelf.fill("numpy", lambda numpy: numpy.linalg.inv(numpy.eye(3)))
    shelf.fill("pandas", _warm_pandas)
    shelf.fill("numpy.random")
    shelf.fill("matplotlib.pyplot", _warm_pyplot)

    from json import loads

    from _sandbox_ending import LIBC, Ending
    from _sandbox_memory import collapse
    from numpy.random import seed  # random reseeds itself after a fork

    return lambda yes: LIBC.prctl(PR_SET_DUMPABLE, int(yes)), loads, seed, Ending(PROGRAM), collapse


def _warm_pandas(pandas):
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": list("xyx")})
    frame = pandas.read_csv(io.StringIO(frame.to_csv(index=False)))
    frame.describe().to_string()
    frame.groupby("b").a.mean()


def _warm_pyplot(pyplot):
    figure, axes = pyplot.subplots()
    axes.plot([1, 2], label="x")
    axes.legend()
    figure.savefig(io.BytesIO(), format="png")
    pyplot.close(figure)


def _spare_from_teardown(shelf):
    """At the end, the interpreter takes apart the modules that it sees: what was not loaded by the program is hidden."""
    atexit.register(shelf.hide)
    keeper = [shelf]
    keeper.append(keeper)  # soon frozen, and then this cycle is never collected


def _park(set_dumpable):
    """Fork a run process, announce it, and wait to be told to park the next one.

    Returns the request in the run process and None in the driver.
    """
    waiting, taken = os.pipe()
    middle = os.fork()
    if middle == 0:
        return _fork_again(waiting, taken, set_dumpable)
    os.close(taken)
    pid = os.read(waiting, 16)
    os.waitpid(middle, 0)  # from now on PID 1 is the run process's parent
    if not pid:
        os._exit(1)
    os.write(CHANNEL, b"ready %s\n" % pid)
    os.read(waiting, 1)  # nothing, when the run process has its request or is gone: now the channel is ours
    os.close(waiting)
    if _read(5) != b"park\n":
        os._exit(1)
    return None


def _fork_again(waiting, taken, set_dumpable):
    try:
        if os.fork() != 0:
            os._exit(0)
    except OSError:
        os._exit(1)
    os.close(waiting)
    os.setsid()
    set_dumpable(True)
    os.write(taken, b"%d" % os.getpid())
    request = _read(int.from_bytes(_read(4), "big"))
    os.close(CHANNEL)
    os.close(taken)
    return request


def _read(length):
    data = bytearray()
    while len(data) < length:
        chunk = os.read(CHANNEL, length - len(data))
        if not chunk:
            os._exit(0)
        data += chunk
    return bytes(data)


def _become_program(request):
    os.environ.update(request["env"])
    with open(PROGRAM, "wb") as file:
        file.write(request["code"].encode())
    # The program's own namespace must be as new as its objects, or the frozen one would keep them from finalisation.
    main = type(sys)("__main__")
    main.__loader__ = sys.modules["__main__"].__loader__
    main.__annotations__ = {}
    main.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = main
