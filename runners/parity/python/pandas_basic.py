# A table, grouped and described.
import pandas as pd

frame = pd.read_csv("/data/table.csv")
print(frame.describe(include="all"))
print(frame.groupby("city").sales.agg(["mean", "count"]))
print(frame.dtypes, pd.options.display.max_rows)
