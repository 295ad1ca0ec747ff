# An error that was handled does not change a later sys.exit.
import sys
import traceback

try:
    1 / 0
except ZeroDivisionError:
    traceback.print_exc(file=sys.stdout)
sys.exit(2)
