# A generator that is suspended when the program ends.
def numbers():
    try:
        yield 1
    finally:
        print("generator closed")


generator = numbers()
next(generator)
