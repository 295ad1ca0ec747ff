"""What the full driver loads ahead, with the parts that are slow the first time they are used."""

import io
import os
import sys
from contextlib import contextmanager
from select import POLLIN, poll
from time import process_time

# Seconds. In bites and pauses, a program beside this took 24 ms and its 90th percentile 48; without, 31 and 66.
BITE = 0.003
CACHE = "/opt/runner/matplotlib"


def load(shelf, requests):
    """Load everything. With `requests`, programs may run beside this that need nothing of it: each bite is followed by
    a pause as long, so that half of the sandbox's share of a core is theirs, until one of them asks for it."""
    if requests is not None:
        shelf.before_each = _in_bites(requests)
    with _matplotlib_of_the_image():
        _load(shelf)
    from numpy.random import seed

    shelf.when_shown |= {
        "numpy.random.mtrand": seed,  # random does this by itself after a fork
        "matplotlib": _read_settings,
        "asyncio": _let_tasks_outlive_cells,
        "pandas": _fit_columns,
    }


def _in_bites(requests):
    asked, began = poll(), process_time()
    asked.register(requests, POLLIN)

    def pause():
        nonlocal began
        worked = process_time() - began
        if worked > BITE:
            asked.poll(worked * 1000)
            began = process_time()

    return pause


@contextmanager
def _matplotlib_of_the_image():
    """Have matplotlib read nothing that programs can write: some may run beside this, and others after them."""
    of_programs, is_accessible, workspace = os.environ["MPLCONFIGDIR"], os.access, os.getcwd()
    os.chdir("/")
    os.environ["MPLCONFIGDIR"] = CACHE
    os.access = lambda path, *rest, **named: path == CACHE or is_accessible(path, *rest, **named)
    try:
        yield
    finally:
        os.environ["MPLCONFIGDIR"], os.access = of_programs, is_accessible
        os.chdir(workspace)
    import matplotlib
    from matplotlib import style

    for function in (matplotlib.get_configdir, matplotlib.get_cachedir):
        _forget_answer(function)
    style.USER_LIBRARY_PATHS[:] = [path.replace(CACHE, of_programs) for path in style.USER_LIBRARY_PATHS]


def _forget_answer(function):
    """Drop its first answer, which it keeps in a variable of the function around it."""
    kept = dict(zip(function.__code__.co_freevars, function.__closure__))
    kept["called"].cell_contents = False


def _load(shelf):
    shelf.fill(["asyncio", "urllib.request"])
    shelf.fill(["numpy"], lambda numpy: numpy.linalg.inv(numpy.eye(3)))
    shelf.fill(["pandas"], _warm_pandas)
    shelf.fill(["numpy.random"])
    shelf.fill(["matplotlib.pyplot"], _warm_pyplot)


def _read_settings():
    """Read the settings of /data, which matplotlib looks for when it is loaded; MPLBACKEND takes precedence."""
    if not os.path.isfile("matplotlibrc"):
        return
    matplotlib = sys.modules["matplotlib"]
    backend = os.environ.get("MPLBACKEND") and matplotlib.rcParams._get("backend")
    settings = matplotlib._rc_params_in_file("matplotlibrc")
    for kept in (matplotlib.rcParams, matplotlib.rcParamsOrig):
        kept._update_raw(settings)
    if backend:
        matplotlib.rcParams._set("backend", backend)


def _let_tasks_outlive_cells():
    if _is_kernel():
        import _sandbox_tasks  # noqa: F401


def _fit_columns():
    if _is_kernel():
        show_columns(sys.modules["pandas"])


def _is_kernel():
    return "_sandbox_kernel" in sys.modules


def show_columns(pandas):
    """Show as many as in a notebook, on more lines if need be: nobody can make the window wider."""
    pandas.set_option("display.max_columns", 20)


def _warm_pandas(pandas):
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": list("xyx")})
    frame = pandas.read_csv(io.StringIO(frame.to_csv(index=False)))
    frame.describe().to_string()
    frame.groupby("b").a.mean()


def _warm_pyplot(pyplot):
    backend = pyplot.rcParamsDefault._get("backend")
    figure, axes = pyplot.subplots()
    axes.plot([1, 2], label="x")
    axes.legend()
    figure.savefig(io.BytesIO(), format="png")
    pyplot.close(figure)
    # The backend is chosen with the first figure: until then a program may say which one it wants.
    pyplot._backend_mod = None
    pyplot.rcParamsDefault._set("backend", backend)
    # Otherwise every fork would free its fonts, and copy the memory that they are in to do so.
    sys.modules["matplotlib.font_manager"]._get_font.cache_clear()
