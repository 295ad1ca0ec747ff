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
from types import SimpleNamespace

from _sandbox_shelf import Shelf

CHANNEL = 3
PROGRAM = "/tmp/main.py"
UPLOADS = "/data"
PR_SET_DUMPABLE = 4


def serve(shown):
    """Return in each run process, once it has its program. `shown` is what a plain run has loaded."""
    environment, path = dict(os.environ), list(sys.path)
    sys.path[:] = [directory for directory in path if directory != UPLOADS]
    gc.disable()
    shelf = Shelf(shown)
    shelf.record()
    tools = _preload(shelf)
    sys.path[:] = path
    shelf.close()
    os.environ.clear()
    os.environ.update(environment)
    _spare_from_teardown(shelf)
    ending = tools.Ending(PROGRAM)
    ending.prepare()
    gc.enable()
    gc.collect()
    gc.freeze()  # the collector never again touches what is loaded, and the run processes share its memory
    tools.collapse()
    tools.set_dumpable(False)

    parked = None
    while parked is None:
        parked = _fork_run_process()
    tools.set_dumpable(True)
    tools.reseed()
    _renew_main()
    ending.watch()
    _rehearse(tools.parse)
    _become_program(tools.parse(_take_request(parked)))


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

    return SimpleNamespace(
        collapse=collapse,
        parse=loads,
        reseed=seed,
        set_dumpable=lambda yes: LIBC.prctl(PR_SET_DUMPABLE, int(yes)),
        Ending=Ending,
    )


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
    """At the end, the interpreter takes apart the modules that it sees: let it see those of the program only."""
    atexit.register(shelf.hide_for_good)
    keeper = [shelf]
    keeper.append(keeper)  # soon frozen, and then this cycle is never collected


def _fork_run_process():
    """In the run process, return what it announces itself on. In the driver, return None when the next is due."""
    waiting, parked = os.pipe()
    middle = os.fork()
    if middle == 0:
        _leave_to_child()
        os.close(waiting)
        os.setsid()
        return parked
    os.close(parked)
    os.waitpid(middle, 0)  # from now on PID 1 is the run process's parent
    pid = os.read(waiting, 16)
    if not pid:
        os._exit(1)
    os.write(CHANNEL, b"ready %s\n" % pid)
    os.read(waiting, 1)  # nothing, when the run process has its request or is gone: now the channel is ours
    os.close(waiting)
    if _read(5) != b"park\n":
        os._exit(1)
    return None


def _leave_to_child():
    try:
        if os.fork() != 0:
            os._exit(0)
    except OSError:
        os._exit(1)


def _renew_main():
    """The program's namespace must be as new as its objects, or the frozen one would keep them from finalisation."""
    main = type(sys)("__main__")
    main.__loader__ = sys.modules["__main__"].__loader__
    main.__annotations__ = {}
    main.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = main


def _rehearse(parse):
    """Do once what every run does: memory that is written to is copied after a fork, and copied now it is ready then."""
    request = parse('{"code": "def f(x):\\n    return [x, str(x)]\\nf(1)", "env": {}}')
    exec(compile(request["code"], "rehearsal", "exec"), {})


def _take_request(parked):
    os.write(parked, b"%d" % os.getpid())
    request = _read(int.from_bytes(_read(4), "big"))
    os.close(CHANNEL)
    os.close(parked)
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
