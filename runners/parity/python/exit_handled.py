# SystemExit can be caught, and what follows still counts.
try:
    raise SystemExit(3)
except SystemExit as end:
    print("caught", end.code)
