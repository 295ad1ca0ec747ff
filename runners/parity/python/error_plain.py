# A traceback through two functions.
def inner(value):
    return 10 / value


def outer():
    return inner(0)


outer()
