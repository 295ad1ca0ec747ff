"""Installs wheels from /packages/fetched/wheels into /data/tree: in a container without a network, with a directory of
its own as /data. Wheels are unpacked and compiled; nothing in them is run.

What the runner has in another version goes to a directory of its own in there, which programs look at first."""

import glob
import importlib.metadata
import os
import re
import subprocess
import sys

# Exit code that tells the server that a wheel is malformed.
REFUSED = 65
# Failures of the machine, not of a wheel.
TROUBLE = "Permission denied|Read-only file|Input/output|Too many open|Cannot allocate|No space left|File too large|quota"
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
    environment = {**os.environ, "TMPDIR": "/data/tmp"}
    done = subprocess.run(pip, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    if done.returncode == 0:
        return
    said = done.stderr.decode(errors="replace")
    if done.returncode < 0 or re.search(TROUBLE, said):
        sys.exit(f"pip ended with {done.returncode}: {said}")
    refuse(said)


def refuse(said):
    """Ends with what pip said, with the names of files in a wheel but without their paths here."""
    said = re.sub(r"/data/tmp/pip-target-\w+(/lib/python)?/?|/packages/fetched/wheels/", "", said)
    lines = [line for line in said.splitlines() if line and line != "ERROR: Exception:"]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    print(" ".join(errors or lines[-1:]), file=sys.stderr)
    sys.exit(REFUSED)


main()
