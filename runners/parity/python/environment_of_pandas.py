# A setting that pandas reads when it is loaded.
import os

os.environ["PANDAS_FUTURE_INFER_STRING"] = "0"
import pandas as pd

print(pd.Series(["a"]).dtype)
