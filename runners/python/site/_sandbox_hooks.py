"""Fits libraries to a place without a screen: each of them is handed over to a module of ours when it is loaded.

This is done where modules are found, so that it holds for the image's libraries, for those that were installed for the
conversation and for other versions of them. Keep it small: every interpreter loads it.
"""

import _frozen_importlib_external as _importing
import sys

# A module of a library, and the module and function of ours that gets it as soon as it is loaded.
HOOKS = {
    "IPython.core.display_functions": ("_sandbox_display", "fit_ipython"),
    "PIL.ImageShow": ("_sandbox_shows", "fit_pillow"),
    "altair": ("_sandbox_shows", "fit_altair"),
    "bokeh.io.output": ("_sandbox_shows", "fit_bokeh"),
    "matplotlib._mathtext": ("_sandbox_fonts", "fit_mathtext"),
    "matplotlib.backends.backend_agg": ("_sandbox_figures", "fit"),
    "matplotlib.font_manager": ("_sandbox_fonts", "fit_matplotlib"),
    "plotly.io._renderers": ("_sandbox_shows", "fit_plotly"),
    "plotly.offline.offline": ("_sandbox_shows", "fit_offline_plotly"),
    "reportlab.pdfbase.pdfmetrics": ("_sandbox_pdf_fonts", "fit_reportlab"),
}


class Finder:
    shelf = None  # has what was loaded ahead

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if cls.shelf is not None and target is None and (spec := cls.shelf.find_spec(name)):
            return spec
        hook = HOOKS.get(name)
        if hook is None:
            return None
        spec = _importing.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, _importing.SourceFileLoader):
            _hand_over_when_loaded(spec.loader, *hook)
        return spec


def _hand_over_when_loaded(loader, ours, function):
    load = loader.exec_module

    def exec_module(module):
        load(module)
        try:
            getattr(__import__(ours), function)(module)
        except (AttributeError, ImportError):
            pass  # a version that works otherwise does what it does by itself

    loader.exec_module = exec_module


def put_in_place():
    """Come before all other finders."""
    sys.meta_path.insert(0, Finder)
