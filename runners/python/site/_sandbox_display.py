"""What a kernel shows of the values of a cell: text on standard output, pictures as files in /data."""

import base64
import os
import sys

from IPython.core.displayhook import DisplayHook as TerminalHook
from IPython.core.displaypub import DisplayPublisher as TerminalPublisher

DIRECTORY = "/data"
PICTURES = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
}


class DisplayHook(TerminalHook):
    """Shows the value of a cell without prompts."""

    def start_displayhook(self):
        pass

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        show(format_dict)

    def finish_displayhook(self):
        pass


class DisplayPublisher(TerminalPublisher):
    """Does what `display()` asks for."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        show(data)

    def clear_output(self, wait=False):
        pass


def show(data):
    """Show an object in the first of its forms that can be shown here."""
    for kind, ending in PICTURES.items():
        if kind in data:
            save(data[kind], ending)
            return
    if "text/plain" in data:
        print(data["text/plain"])


def save(picture, ending):
    if isinstance(picture, str):
        picture = picture.encode() if ending == "svg" else base64.b64decode(picture)
    try:
        with next_free_file("image", ending) as file:
            file.write(picture)
    except OSError as error:
        print(f"a picture could not be saved: {error}", file=sys.stderr)


def next_free_file(stem, ending):
    number = 1
    while True:
        try:
            return open(os.path.join(DIRECTORY, f"{stem}-{number}.{ending}"), "xb")
        except FileExistsError:
            number += 1


def plain_texts(formatter):
    """Make no forms that nobody sees, and show objects that only wrap a text as that text."""
    formatter.active_types = ["text/plain", *PICTURES]
    formatter.formatters["image/png"].for_type_by_name("matplotlib.figure", "Figure", figure_as_png)
    plain = formatter.formatters["text/plain"]
    for name in ("HTML", "Latex", "Markdown", "Math"):
        plain.for_type_by_name("IPython.core.display", name, lambda shown, printer, _: printer.text(str(shown.data)))


def figure_as_png(figure):
    """Draw it so that its canvas does not draw it again when the cell ends: it counts as saved."""
    import io

    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()
