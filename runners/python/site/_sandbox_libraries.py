"""The large libraries that the full driver has, with the parts that are slow the first time they are used."""

import io
import os
import sys
from contextlib import contextmanager

from _sandbox_imports import LOADED

CACHE = "/opt/runner/matplotlib"


class Libraries:
    """Loads them onto the shelf, each of them once."""

    def __init__(self, shelf):
        self._shelf, self._missing = shelf, list(LOADED)

    def lacks(self, names):
        return any(name in names for name in self._missing)

    def load(self, names=LOADED):
        """Load these, unless they are there. Nothing that programs can write may be in `sys.path`."""
        wanted = [name for name in self._missing if name in names]
        with _matplotlib_of_the_image("matplotlib" in wanted):
            for name in wanted:
                LOADERS[name](self._shelf)
        self._missing = [name for name in self._missing if name not in names]


@contextmanager
def _matplotlib_of_the_image(is_loaded):
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
    if not is_loaded:
        return
    import matplotlib
    from matplotlib import style

    for function in (matplotlib.get_configdir, matplotlib.get_cachedir):
        _forget_answer(function)
    style.USER_LIBRARY_PATHS[:] = [path.replace(CACHE, of_programs) for path in style.USER_LIBRARY_PATHS]


def _forget_answer(function):
    """Drop its first answer, which it keeps in a variable of the function around it."""
    kept = dict(zip(function.__code__.co_freevars, function.__closure__))
    kept["called"].cell_contents = False


def _load_standard(shelf):
    shelf.fill(["asyncio"])
    shelf.when_shown["asyncio"] = _let_tasks_outlive_cells


def _load_numpy(shelf):
    shelf.fill(["numpy"], lambda numpy: numpy.linalg.inv(numpy.eye(3)))
    shelf.fill(["numpy.random"])
    from numpy.random import seed

    shelf.when_shown["numpy.random.mtrand"] = seed  # random does this by itself after a fork


def _load_pandas(shelf):
    shelf.fill(["pandas"], _warm_pandas)
    shelf.when_shown["pandas"] = _fit_columns


def _load_matplotlib(shelf):
    shelf.fill(["matplotlib.pyplot"], _warm_pyplot)
    shelf.when_shown["matplotlib"] = _read_settings


# Those of `LOADED`.
LOADERS = {"standard": _load_standard, "numpy": _load_numpy, "pandas": _load_pandas, "matplotlib": _load_matplotlib}


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
