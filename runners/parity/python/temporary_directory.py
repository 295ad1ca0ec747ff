# A temporary directory that the program leaves to the interpreter.
import atexit
import os
import tempfile

directory = tempfile.TemporaryDirectory(prefix="parity")
atexit.register(lambda: print("at exit:", os.path.isdir(directory.name)))
print(os.path.isdir(directory.name), tempfile.gettempdir())
