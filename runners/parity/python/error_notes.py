# Notes on an exception.
try:
    raise ValueError("base")
except ValueError as error:
    error.add_note("first note")
    error.add_note("second note")
    raise
