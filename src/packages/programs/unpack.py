"""Installs wheels from /packages/fetched/wheels into /data/tree: in a container without a network, with a directory of
its own as /data. Wheels are unpacked and compiled; nothing in them is run.

What the runner has in another version goes to a directory of its own in there, which programs look at first. Modules
that say why stand there for those of the runner that cannot be imported beside these versions."""

import glob
import json
import subprocess

# Exit code that tells the server that a wheel is malformed.
REFUSED = 65
# Failures of the machine, not of a wheel.
TROUBLE = "Permission denied|Read-only file|Input/output|Too many open|Cannot allocate|No space left|File too large|quota"
FETCHED = "/packages/fetched"
TREE = "/data/tree"
REPLACED = "/data/tree/.replaced"
# Tells the driver that programs must load for themselves what it has loaded ahead.
ANEW = "/data/tree/.anew"


def main():
    os.mkdir(TREE)
    os.mkdir("/data/tmp")
    there = runners()
    wheels = {path: normal(os.path.basename(path).split("-")[0]) for path in sorted(glob.glob(FETCHED + "/wheels/*.whl"))}
    install(TREE, [path for path, name in wheels.items() if name not in there])
    install(REPLACED, [path for path, name in wheels.items() if name in there])
    with open(FETCHED + "/aside.json") as file:
        aside = json.load(file)
    for one in aside:
        said = f"the runner's {one['name']} {one['version']} needs {one['needs']}"
        for module in modules(there[one["name"]]):
            stand_in(module, f"No module named {module!r} that goes with the other versions: {said}")
    if {*wheels.values(), *(one["name"] for one in aside)} & with_needs(LOADED_AHEAD, there):
        open(ANEW, "w").close()


def modules(distribution):
    """The names that a program can import of it."""
    found = set()
    for file in distribution.files or []:
        top, *rest = file.parts
        if file.suffix in (".py", ".so") and rest in ([], ["__init__.py"]):
            found.add(top.partition(".")[0])
    return sorted(name for name in found if name.isidentifier())


def stand_in(module, said):
    os.makedirs(REPLACED, exist_ok=True)
    with open(f"{REPLACED}/{module}.py", "w") as file:
        file.write(f"raise ModuleNotFoundError({said!r}, name={module!r})\n")


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
