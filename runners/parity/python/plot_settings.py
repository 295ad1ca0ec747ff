# The settings of matplotlib are its own.
import matplotlib
import matplotlib.pyplot as plt

print(matplotlib.rcParams["backend"], matplotlib.rcParams["figure.dpi"], matplotlib.rcParams["font.family"], matplotlib.is_interactive())
print(plt.figure().number, len(matplotlib.font_manager.fontManager.ttflist) > 30, matplotlib.get_cachedir())
print(dict(matplotlib.rcParams) == dict(matplotlib.rcParamsDefault))
