# The program's stack starts with the program.
import inspect
import sys
import traceback


def where():
    traceback.print_stack(file=sys.stdout)
    return [(frame.function, frame.filename, frame.lineno) for frame in inspect.stack()]


print(where())
print(inspect.getsource(where))
print(sys.gettrace(), sys.getprofile(), sys.getswitchinterval())
