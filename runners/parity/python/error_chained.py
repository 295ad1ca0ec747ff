# An explicit cause and an implicit context.
def parse(text):
    try:
        return int(text)
    except ValueError as error:
        raise RuntimeError(f"cannot parse {text!r}") from error


try:
    parse("x")
except RuntimeError:
    raise KeyError("while handling")
