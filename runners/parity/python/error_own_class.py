# An error class of the program, with its qualified name.
class Failure(Exception):
    class Deep(Exception):
        def __str__(self):
            return "deep text"


raise Failure.Deep
