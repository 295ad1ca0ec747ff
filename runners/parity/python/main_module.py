# The program is sys.modules["__main__"].
import sys

value = 42
main = sys.modules["__main__"]
print(main.value, main.__dict__ is globals(), main)
