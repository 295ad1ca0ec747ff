# A column that is not there.
import pandas as pd

pd.DataFrame({"a": [1]})["b"]
