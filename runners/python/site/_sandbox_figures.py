"""Agg for programs whose figures nobody watches: what they show is saved as /data/figure-<n>.png.

Our canvas takes the place of the one of matplotlib's own Agg backend as soon as that is loaded (see _sandbox_hooks), so
it is in force both by default and after `matplotlib.use("Agg")`. Only programs that draw load this.

A figure is saved when `plt.show()` would have opened its window, and otherwise when the program, or a cell of a kernel,
ends with the figure still open. It is not saved if the program saved it itself and has not changed it since, nor if it
is empty. What a cell within `%%capture` shows goes to what is collected.
"""

import atexit
import contextlib
import functools
import io
import os
import sys
import warnings

import matplotlib
from matplotlib import is_interactive
from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends import backend_agg
from matplotlib.figure import Figure

DIRECTORY = "/data"
NOT_THE_PROGRAM = (os.path.dirname(matplotlib.__file__), contextlib.__file__, __file__)


class FigureManager(FigureManagerBase):
    @classmethod
    def pyplot_show(cls, *, block=None):
        """Save what a window would show. Closing the window ends a figure, so a blocking show closes it too."""
        if block is None:
            block = not is_interactive()
        if block:
            for manager in Gcf.get_all_fig_managers():
                _save(manager.canvas)
                Gcf.destroy(manager)

    def show(self):
        """`Figure.show()` does not block: the figure is saved in its final state, at the end."""


class FigureCanvas(backend_agg.FigureCanvasAgg):
    manager_class = FigureManager

    def __init__(self, figure=None):
        super().__init__(figure)
        self.process = os.getpid()
        self.saved = False
        self._draw_later = False

    def draw(self):
        self._draw_later = False
        if self.figure.stale:
            self.saved = False
        super().draw()

    def draw_idle(self):
        # pyplot.savefig() asks for this after every save, which would draw each picture twice.
        self._draw_later = True

    def get_renderer(self):
        if self._draw_later:
            self.draw()
        return super().get_renderer()


def _remember_saving(savefig):
    @functools.wraps(savefig)
    def wrapper(self, *args, **kwargs):
        with _warnings_of_the_program():
            savefig(self, *args, **kwargs)
        self.stale = False
        self.canvas.saved = True

    return wrapper


@contextlib.contextmanager
def _warnings_of_the_program():
    """Have what matplotlib warns of name the line of the program that drew, and none of ours. At the end of a program
    there is no such line."""
    with warnings.catch_warnings(record=True) as caught:
        yield
    place = _program()
    for each in caught:
        if place is None:
            print(f"{each.category.__name__}: {each.message}", file=sys.stderr)
        else:
            registry = place.f_globals.setdefault("__warningregistry__", {})
            file, line = place.f_code.co_filename, place.f_lineno
            warnings.warn_explicit(each.message, each.category, file, line, registry=registry)


def _program():
    """The innermost frame of the program."""
    frame = sys._getframe()
    while frame and frame.f_code.co_filename.startswith(NOT_THE_PROGRAM):
        frame = frame.f_back
    return frame


def _save(canvas):
    figure = canvas.figure
    is_empty = len(figure.get_children()) <= 1  # its background
    if is_empty or (getattr(canvas, "saved", False) and not figure.stale):  # it may be another backend's
        return
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    shell = _capturing_shell()
    if shell is not None:
        shell.display_pub.publish({"image/png": picture.getvalue(), "text/plain": repr(figure)})
        return
    with _next_free_file() as file:
        file.write(picture.getbuffer())
    records = sys.modules.get("_sandbox_records")
    if records is not None and records.are_wanted():
        records.put_picture("image/png", os.path.basename(file.name), repr(figure))


def _capturing_shell():
    """The shell of a kernel, while it collects what is displayed instead of showing it."""
    kernel = sys.modules.get("_sandbox_shell")
    shell = kernel and kernel.Shell.instance()
    return shell if shell and shell.is_captured() else None


def _next_free_file():
    number = 1
    while True:
        try:
            return open(os.path.join(DIRECTORY, f"figure-{number}.png"), "xb")
        except FileExistsError:
            number += 1


def _ours():
    """The open figures to be saved: those of other backends are not, and a forked child's belong to its parent."""
    managers = Gcf.get_all_fig_managers()
    return [each for each in managers if isinstance(each.canvas, FigureCanvas) and each.canvas.process == os.getpid()]


def _save_open_figures():
    for manager in _ours():
        try:
            _save(manager.canvas)
        except Exception as error:
            print(f"figure {manager.num} could not be saved: {error}", file=sys.stderr)


def save_and_close():
    """Save and close open figures, as a kernel does after each cell."""
    _save_open_figures()
    for manager in _ours():
        Gcf.destroy(manager)


def fit(backend_agg):
    """Put our canvas in place."""
    backend_agg.FigureCanvas = backend_agg._BackendAgg.FigureCanvas = FigureCanvas
    Figure.savefig = _remember_saving(Figure.savefig)
    # Registered after pyplot's own handler, which destroys all figures, and therefore run before it.
    atexit.register(_save_open_figures)
