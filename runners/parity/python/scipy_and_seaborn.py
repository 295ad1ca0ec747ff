# Libraries that are not loaded ahead.
import seaborn
from scipy import optimize, stats

print(round(stats.norm.cdf(1.96), 4), round(optimize.brentq(lambda x: x * x - 2, 0, 2), 6), seaborn.__name__)
