# doctest looks into the program.
def double(x):
    """
    >>> double(2)
    4
    >>> double("a")
    'ab'
    """
    return x + x


import doctest

print(doctest.testmod())
