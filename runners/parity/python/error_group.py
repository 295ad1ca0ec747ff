# An exception group.
def fail(error):
    raise error


errors = []
for error in (ValueError("one"), TypeError("two")):
    try:
        fail(error)
    except Exception as caught:
        errors.append(caught)
raise ExceptionGroup("several", errors)
