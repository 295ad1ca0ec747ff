"""What is shown of the values of a cell, and of what `display()` gets: text on standard output, pictures and pages as
files in /data."""

import base64
import functools
import os
import sys

import _sandbox_records as records

DIRECTORY = "/data"
MAX_TEXT = 1000
PICTURES = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
}


def show(data, kind="display"):
    """Show an object in the first of its forms that can be shown here, or in all of them if the caller wants records. A
    picture says all that there is to say; a page comes beside the text."""
    if records.are_wanted():
        records.put(kind, data, save_picture)
        return
    for name in PICTURES:
        if name in data:
            save_picture(name, data[name])
            return
    if "text/html" in data:
        save(page(data["text/html"]).encode(), "page", "html")
    if "text/plain" in data:
        print(data["text/plain"])


def save_picture(name, picture):
    """Save one of this type, and return what its file is called."""
    ending = PICTURES[name]
    if isinstance(picture, str):
        picture = picture.encode() if ending == "svg" else base64.b64decode(picture)
    return save(picture, "image", ending)


def page(html):
    """A whole page, whatever part of one it is made of."""
    if "<html" in html[:1000].lower():
        return html
    return f"<!DOCTYPE html>\n<html>\n<head><meta charset=\"utf-8\"></head>\n<body>\n{html}\n</body>\n</html>\n"


def save(content, stem, ending):
    """Save it, and return what the file is called, unless there is no room for it."""
    try:
        with next_free_file(stem, ending) as file:
            file.write(content)
            return os.path.basename(file.name)
    except OSError as error:
        print(f"a {stem} could not be saved: {error}", file=sys.stderr)
        return None


def next_free_file(stem, ending):
    number = 1
    while True:
        try:
            return open(os.path.join(DIRECTORY, f"{stem}-{number}.{ending}"), "xb")
        except FileExistsError:
            number += 1


def forms(formatter):
    """Make the forms that can be shown, and show objects that only wrap a text as that text."""
    offer(formatter, wants_records=False)
    formatter.formatters["image/png"].for_type_by_name("matplotlib.figure", "Figure", figure_as_png)
    plain = formatter.formatters["text/plain"]
    for name in ("HTML", "Latex", "Markdown", "Math"):
        plain.for_type_by_name("IPython.core.display", name, print_data)


def offer(formatter, wants_records):
    """Have objects make the forms that can be shown: a caller that wants records shows more of them."""
    formatter.active_types = [*(records.FORMS if wants_records else ("text/plain", "text/html")), *PICTURES]


def print_data(shown, printer, cycle):
    """Print what the object wraps: in part, if it is a page, which is a file as well."""
    text = str(shown.data)
    printer.text(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…")


def figure_as_png(figure):
    """Draw it so that its canvas does not draw it again when the cell ends: it counts as saved."""
    import io

    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def fit_ipython(display_functions):
    """Have `display()` show what it gets in a plain program, too, where IPython would only print it."""
    in_a_shell = display_functions.display

    @functools.wraps(in_a_shell)
    def display(*objects, raw=False, include=None, exclude=None, display_id=None, **named):
        from IPython.core.interactiveshell import InteractiveShell

        if InteractiveShell.initialized():
            return in_a_shell(
                *objects, raw=raw, include=include, exclude=exclude, display_id=display_id, **named
            )
        for each in objects:
            display_plainly(each, raw, include, exclude)
        if display_id is None or display_id is False:
            return None
        return display_functions.DisplayHandle(None if display_id is True else display_id)

    display_functions.display = display


def display_plainly(shown, raw, include, exclude):
    if not raw:
        own = getattr(shown, "_ipython_display_", None)
        if own is not None and not isinstance(shown, type):
            own()
            return
        shown, _ = formatter().format(shown, include=include, exclude=exclude)
    show(shown)


@functools.cache
def formatter():
    from IPython.core.formatters import DisplayFormatter

    made = DisplayFormatter()
    forms(made)
    return made
