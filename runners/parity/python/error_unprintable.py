# An exception whose text cannot be made.
class Odd(Exception):
    def __str__(self):
        raise ValueError("no text")


raise Odd
