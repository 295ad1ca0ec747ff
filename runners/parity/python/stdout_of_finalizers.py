# What a global prints when it goes, without a newline.
import pandas


class Last:
    def __del__(self):
        print("bye", end="")


last = Last()
print("hello, ", end="")
