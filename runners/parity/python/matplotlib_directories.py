import matplotlib
from matplotlib import style

print(matplotlib.get_configdir(), matplotlib.get_cachedir(), style.USER_LIBRARY_PATHS)
print(matplotlib.matplotlib_fname())
