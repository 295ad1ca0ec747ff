"""Installs wheels from /packages/fetched/wheels into /data/tree: in a container without a network, with a directory of
its own as /data. Wheels are unpacked and compiled; nothing of them is run.

What the runner has in another version goes to a directory of its own in there, which programs look at first."""

import glob
import importlib.metadata
import os
import re
import subprocess
import sys

TREE = "/data/tree"
REPLACED = "/data/tree/.replaced"


def main():
    os.mkdir(TREE)
    os.mkdir("/data/tmp")
    wheels = sorted(glob.glob("/packages/fetched/wheels/*.whl"))
    there = {normal(found.name) for found in importlib.metadata.distributions()}
    is_replaced = [normal(os.path.basename(wheel).split("-")[0]) in there for wheel in wheels]
    for directory, replaced in ((TREE, False), (REPLACED, True)):
        install(directory, [wheel for wheel, is_one in zip(wheels, is_replaced) if is_one == replaced])


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def install(directory, wheels):
    if not wheels:
        return
    options = ["--isolated", "--disable-pip-version-check", "--no-input", "--quiet", "--no-cache-dir"]
    options += ["--no-index", "--no-deps", "--no-warn-script-location", "--target", directory]
    pip = [sys.executable, "-I", "-m", "pip", "install", *options, "--", *wheels]
    done = subprocess.run(pip, stdin=subprocess.DEVNULL, env={**os.environ, "TMPDIR": "/data/tmp"})
    if done.returncode:
        sys.exit(done.returncode)


main()
