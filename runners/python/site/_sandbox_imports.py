"""Judges from a program's text whether the light driver has what it imports.

A wrong guess costs time and nothing else: what is not loaded is imported as in any interpreter. So anything unusual,
such as the word `import` in a string, is left to the full driver.
"""

import re
import sys

# Loaded ahead by the light driver. All of it together takes a few megabytes. A program that imports sqlite3 takes 5 ms
# of processor time instead of 16; a run that imports urllib.request takes 10 ms instead of 30.
LIGHT = (
    "abc", "argparse", "array", "base64", "bisect", "calendar", "cmath", "collections", "contextlib", "copy", "csv",
    "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "gc", "glob", "hashlib", "heapq",
    "http.client", "inspect", "io", "itertools", "json", "logging", "math", "numbers", "operator", "os", "pathlib",
    "pickle", "pprint", "queue", "random", "re", "secrets", "shutil", "signal", "socket", "sqlite3", "ssl",
    "statistics", "string", "struct", "subprocess", "sys", "tempfile", "textwrap", "threading", "time", "timeit",
    "traceback", "types", "typing", "unicodedata", "urllib.request", "uuid", "warnings", "zipfile", "zlib",
)  # fmt: skip
# What the full driver has of the standard library beside that: few programs import it, and each would take longer to
# fork.
LARGE = ("asyncio",)
# What the full driver can load, in this order; the first one is what `LARGE` names.
LOADED = "standard", "numpy", "pandas", "matplotlib"
# What takes it long to load, and would take a program just as long, and what of it a program needs that names this.
NEEDS = {
    "asyncio": {"standard"},
    "numpy": {"numpy"},
    "scipy": {"numpy"},
    "pandas": {"numpy", "pandas"},
    "matplotlib": {"numpy", "matplotlib"},
    "pylab": {"numpy", "matplotlib"},
    "seaborn": {"numpy", "pandas", "matplotlib"},
}
LIBRARIES = re.compile(rf"\b(?:{'|'.join(NEEDS)})\b")
WORD = re.compile(r"\bimport\b")
STATEMENT = re.compile(r"^[ \t]*(?:from[ \t]+(\w[\w.]*)[ \t]+import\b|import[ \t]+(\w[^\n#;]*))", re.MULTILINE)

# Environment variables that decide, when a library is loaded, what it does. Those for threads are left out: a sandbox
# has few threads in any case.
EARLY = re.compile(r"\b(?:PANDAS_|NUMPY_|NPY_|MPL[A-Z]|MATPLOTLIBRC\b)")


def wants_more(code):
    """Whether the program may import more than small parts of the standard library, which the light driver has or
    which are imported in less time than it takes to fork the full one."""
    statements = STATEMENT.findall(code)
    if len(statements) != len(WORD.findall(code)):
        return True
    for package, names in statements:
        for name in (package or names).split(","):
            name = name.split(" as ")[0].split(".")[0].strip()
            if name in LARGE or name not in sys.stdlib_module_names:
                return True
    return False


def named_libraries(code):
    """What the full driver is worth waiting for while it loads that."""
    return set().union(*(NEEDS[name] for name in LIBRARIES.findall(code)))


def names_early_settings(code):
    """Whether the program may set what the full driver's libraries have already read: then they must be loaded anew."""
    return EARLY.search(code) is not None
