"""What the runner has, for the programs of both steps, which begin with this."""

import importlib.metadata
import os
import re
import sys

from pip._vendor.packaging.requirements import Requirement

# Distributions that are loaded before a program starts, with everything they need. pandas loads pyarrow if it is there,
# without needing it.
LOADED_AHEAD = ("numpy", "pandas", "matplotlib", "ipython", "pyarrow")
# What a kernel is made of, with everything that it needs.
KERNEL = ("ipython",)


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def runners():
    """The runner's distributions by their names."""
    return {normal(found.name): found for found in importlib.metadata.distributions()}


def needs(distribution):
    """What a distribution needs without any of its extras."""
    found = [Requirement(need) for need in distribution.requires or []]
    return [need for need in found if not need.marker or need.marker.evaluate({"extra": ""})]


def with_needs(names, there):
    """Names of distributions, and of all that they need."""
    found, waiting = set(), [name for name in names if name in there]
    while waiting:
        name = waiting.pop()
        if name in there and name not in found:
            found.add(name)
            waiting.extend(normal(need.name) for need in needs(there[name]))
    return found
