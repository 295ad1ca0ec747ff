# ResourceWarning when asked for.
import warnings

warnings.simplefilter("always")
open("/data/table.csv")
print("done")
