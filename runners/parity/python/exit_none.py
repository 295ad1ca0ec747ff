# sys.exit without a value is success.
import sys

sys.exit()
