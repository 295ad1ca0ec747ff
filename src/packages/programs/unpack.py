"""Installs wheels from /packages/fetched/wheels into /data/tree: in a container without a network, with a directory of
its own as /data. Wheels are unpacked and compiled; nothing of them is run."""

import glob
import os
import subprocess
import sys

os.mkdir("/data/tree")
os.mkdir("/data/tmp")
wheels = sorted(glob.glob("/packages/fetched/wheels/*.whl"))
options = ["--isolated", "--disable-pip-version-check", "--no-input", "--quiet", "--no-cache-dir"]
options += ["--no-index", "--no-deps", "--no-warn-script-location", "--target", "/data/tree"]
environment = {**os.environ, "TMPDIR": "/data/tmp"}
if wheels:
    pip = [sys.executable, "-I", "-m", "pip", "install", *options, "--", *wheels]
    sys.exit(subprocess.run(pip, stdin=subprocess.DEVNULL, env=environment).returncode)
