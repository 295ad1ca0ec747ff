"""In place of matplotlib's own: there are no windows here, so a program that asks for this backend gets Agg."""

from matplotlib.backends.backend_agg import FigureCanvas, _BackendAgg

FigureManager = _BackendAgg.FigureManager
