# __name__ and the namespace of the program.
if __name__ == "__main__":
    print(sorted(name for name in dir() if name.startswith("__")))
    print(__name__, __doc__, __file__, __package__, __spec__, type(__builtins__).__name__, __cached__)
