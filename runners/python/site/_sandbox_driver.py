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
    atexit.register(shelf.hide_for_good)
    gc.enable()
    tools.settle()
    ending = tools.Ending(PROGRAM)  # must not live for ever
    ending.prepare()
    gc.freeze()
    tools.collapse()
    tools.set_dumpable(False)

    parked = None
    while parked is None:
        parked = _fork_run_process(tools.fork)
    tools.set_dumpable(True)
    tools.share_memory()
    _renew_main()
    ending.watch()
    _rehearse(tools.parse)
    _become_program(tools.parse(_take_request(parked)))


def _preload(shelf):
    """Load what takes long, and give what the driver itself goes on with."""
    shelf.fill("ctypes")
    from _sandbox_memory import collapse, settle, side_by_side

    with side_by_side():
        _load_libraries(shelf)

    from json import loads

    from _sandbox_ending import LIBC, Ending
    from _sandbox_native import fork_away, share_memory
    from numpy.random import seed

    # random does this by itself after a fork.
    shelf.when_shown("numpy.random.mtrand", seed)
    return SimpleNamespace(
        collapse=collapse,
        fork=fork_away,
        parse=loads,
        set_dumpable=lambda yes: LIBC.prctl(PR_SET_DUMPABLE, int(yes)),
        settle=settle,
        share_memory=share_memory,
        Ending=Ending,
    )


def _load_libraries(shelf):
    """Load what programs use, and touch the parts of it that are slow the first time."""
    for name in ("json", "asyncio", "statistics", "subprocess", "urllib.request"):
        shelf.fill(name)
    shelf.fill("numpy", lambda numpy: numpy.linalg.inv(numpy.eye(3)))
    shelf.fill("pandas", _warm_pandas)
    shelf.fill("numpy.random")
    shelf.fill("matplotlib.pyplot", _warm_pyplot)


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
    # Every fork would give back its fonts, and copy what they are written on to do so.
    sys.modules["matplotlib.font_manager"]._get_font.cache_clear()


def _fork_run_process(fork):
    """In the run process, return what it announces itself on. In the driver, return None when the next is due."""
    waiting, parked = os.pipe()
    if not fork():
        os.close(waiting)
        os.setsid()
        return parked
    os.close(parked)
    pid = os.read(waiting, 16)
    if not pid:
        os._exit(1)
    os.write(CHANNEL, b"ready %s\n" % pid)
    os.read(waiting, 1)  # nothing, when the run process has its request or is gone: now the channel is ours
    os.close(waiting)
    if _read(5) != b"park\n":
        os._exit(1)
    return None


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
