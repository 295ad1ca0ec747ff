# exit() of the site module, deep in the program, runs finally blocks and exit functions.
import atexit


def work():
    try:
        exit(4)
    finally:
        print("finally")


atexit.register(print, "atexit")
work()
