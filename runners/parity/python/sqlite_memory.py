# sqlite, in memory and in a file.
import sqlite3

for path in (":memory:", "/data/base.db"):
    with sqlite3.connect(path) as base:
        base.execute("create table t (x)")
        base.executemany("insert into t values (?)", [(1,), (2,)])
        print(base.execute("select sum(x) from t").fetchone())
import os

os.remove("/data/base.db")
