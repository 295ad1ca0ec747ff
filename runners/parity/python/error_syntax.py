# A syntax error, with its caret.
def broken(:
    pass
