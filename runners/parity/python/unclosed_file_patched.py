# A file of a program whose functions hang on modules and classes of the library.
import json
import sys
import warnings


def show(*arguments):
    pass


file = open("/data/unclosed.txt", "w")
file.write("data")
json.JSONEncoder.default = lambda self, thing: str(thing)
warnings.showwarning = show
sys.excepthook = show
