"""What a cell shows, as records among its output: for callers that want to know what each part of it is. See
runners/PROTOCOL.md, section 6."""

import json
import os
import sys
from contextlib import contextmanager

VARIABLE = "SANDBOX_RECORDS"
MAX_FORM = 200_000  # characters
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml")
FORMS = ("text/plain", "text/html", "text/markdown", "text/latex", "application/json", "application/javascript")

_mark = None


def begin(environment):
    """Take the mark of a cell, if it has one, out of the variables that it is given. Returns whether it has."""
    global _mark
    os.environ.pop(VARIABLE, None)
    _mark = environment.pop(VARIABLE, None)
    return _mark is not None


def are_wanted():
    return _mark is not None


def put(kind, data, save):
    """Record the forms of what is shown. Pictures are in files, for which there is room."""
    forms = {}
    for name, form in data.items():
        if name in PICTURES:
            file = save(name, form)
            if file is not None:
                forms[name] = {"file": file}
        elif name in FORMS:
            forms[name] = {"data": shortened(form)}
    write(sys.__stdout__, {kind: forms})


def put_picture(name, file, text):
    """Record a picture that is in a file already."""
    write(sys.__stdout__, {"display": {name: {"file": file}, "text/plain": {"data": text}}})


@contextmanager
def failure(kind, error):
    """Record an error, around its traceback."""
    write(sys.__stderr__, {"error": {"name": getattr(kind, "__name__", str(kind)), "value": text_of(error)}})
    try:
        yield
    finally:
        write(sys.__stderr__, {"errorEnd": True})


def shortened(form):
    if not isinstance(form, str):
        return form
    return whole(form if len(form) <= MAX_FORM else f"{form[:MAX_FORM]}…")


def text_of(error):
    try:
        return whole(str(error))
    except Exception:
        return ""  # its own method fails, which its traceback shows


def whole(text):
    """Without halves of characters, which JSON cannot have."""
    return text.encode(errors="replace").decode()


def in_json(record):
    try:
        return json.dumps(record, allow_nan=False, default=str)
    except (TypeError, ValueError):
        pass  # a form that JSON cannot have
    for forms in record.values():
        forms.pop("application/json", None)
    return json.dumps(record, default=str)


def write(stream, record):
    text = in_json(record)
    for each in (sys.stdout, sys.stderr):
        try:
            each.flush()
        except (AttributeError, OSError, ValueError):
            pass  # closed or replaced by the program
    stream.write(f"\x1e{_mark}{text}\x1e")
    stream.flush()
