# Tables written in several formats and read again.
import pandas as pd

frame = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=3), "value": [1.5, 2.5, None]})
frame.to_csv("/data/out.csv", index=False)
frame.to_excel("/data/out.xlsx", index=False)
frame.to_parquet("/data/out.parquet")
print(pd.read_excel("/data/out.xlsx").equals(frame), pd.read_parquet("/data/out.parquet").equals(frame))
import os

os.remove("/data/out.xlsx")  # holds the time
