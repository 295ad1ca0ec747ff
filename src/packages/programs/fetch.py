"""Finds out what has to be installed for some requirements, and downloads it.

Runs in a container of its own, with a directory of its own as /data: no conversation's code or file is here. What is
asked for comes in the environment, what was found goes to standard output as one JSON object. pip does the work.
"""

import contextlib
import glob
import hashlib
import json
import shutil
import subprocess
import urllib.parse
import zipfile

from pip._vendor.packaging.utils import InvalidWheelFilename, parse_wheel_filename
from pip._vendor.packaging.version import InvalidVersion, Version

WHEELHOUSE = "/packages/wheelhouse"
CACHE = "/packages/cache"
WHEELS = "/data/wheels"
LOG = "/data/pip.log"
REPORT = "/data/report.json"
# For the second step: what of the runner cannot be imported beside this.
ASIDE = "/data/aside.json"
# What pip's log says when something is there but does not fit.
UNFIT = (
    "none of the wheel's tags",
    "No sources permitted",
    "requires a different Python",
    "require a different python version",
)
# How many versions are named on either side of those that are left out.
NAMED = 8
# Folders that wheels bring by mistake. Nobody means to import them, and any two may have the same.
STRAY = ("benchmarks", "conftest", "doc", "docs", "examples", "scripts", "setup", "test", "tests", "tools")

# pip, which follows a dependency that is an address or a path wherever it leads, and builds what it finds there, wheels
# only or not. Here these are refused before anything is fetched. In a pip that is built differently this fails, and so
# does the install.
#
# And pip, which in a dry run downloads even what it has read the metadata of: everything would be downloaded twice, and
# what is in the cache once. This prevents that, and changes nothing in a pip that is built differently.
CAREFUL_PIP = """
import sys
from pip._internal.cli.main import main
from pip._internal.exceptions import InstallationError
from pip._internal.resolution.resolvelib.factory import Factory

follow = Factory._make_requirements_from_install_req

def refuse_addresses(self, requirement, requested_extras):
    if requirement.link and requirement.match_markers(requested_extras):
        by = getattr(requirement.comes_from, "name", None) or "what was asked for"
        raise InstallationError(f"{by} needs {requirement.name} from an address of its own, and packages come from the index only")
    return follow(self, requirement, requested_extras)

Factory._make_requirements_from_install_req = refuse_addresses
try:
    from pip._internal.operations.prepare import RequirementPreparer
    from pip._internal.utils.direct_url_helpers import direct_url_from_link

    fetch = RequirementPreparer._fetch_metadata_only

    def fetch_and_remember(self, requirement):
        found = fetch(self, requirement)
        if found is not None:
            requirement.get_dist = lambda: found
        return found

    def prepare(self, requirements, parallel_builds=False):
        for requirement in requirements:
            if requirement.needs_more_preparation:
                requirement.download_info = direct_url_from_link(requirement.link, requirement.source_dir)

    RequirementPreparer.prepare_linked_requirements_more  # or this is another pip
    RequirementPreparer.prepare_linked_requirements_more = prepare
    RequirementPreparer._fetch_metadata_only = fetch_and_remember
except (AttributeError, ImportError):
    pass
sys.exit(main())
"""


class Failed(Exception):
    """Ends the program with a reason that the server knows, and a sentence."""


def main():
    request = json.loads(os.environ.pop("PACKAGES_REQUEST"))
    os.environ.update(PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1", TMPDIR="/data/tmp")
    for directory in ("/data/tmp", WHEELS):
        os.mkdir(directory)
    try:
        answer = {"outcome": "fetched", **fetch(request, runners())}
    except Failed as failed:
        reason, detail = failed.args
        earlier = [wish["text"] for wish in request["requirements"] if wish["earlier"] and wish["text"] in detail]
        if earlier:
            detail += f". What was asked for earlier can be removed: {', '.join(earlier)}"
        answer = {"outcome": "failed", "reason": reason, "detail": detail[:2000]}
    print(json.dumps(answer))


def fetch(request, there):
    wishes, gave_way = list(request["requirements"]), []
    while True:
        found, order = resolve(request, wishes, there)
        if len(found) > request["mostPackages"]:
            raise Failed("too_large", f"{len(found)} packages are needed, at most {request['mostPackages']} may be")
        download(request, found)
        left_out, loser = settle(clashes(order), wishes)
        if loser is None:
            break
        gave_way.append(loser)
        wishes = [wish for wish in wishes if normal(wish["name"]) != loser["name"]]
    files = [describe(path) for path in sorted(glob.glob(WHEELS + "/*.whl"))]
    versions = {one["name"]: one["version"] for one in found if one["name"] in wheels()}
    aside = set_aside(versions, there)
    with open(ASIDE, "w") as file:
        json.dump(aside, file)
    return {
        "packages": named(versions),
        "provided": named({name: there[name].version for name in asked(wishes) if name in there.keys() - versions.keys()}),
        "replaced": named({name: there[name].version for name in versions if name in there}),
        "aside": aside,
        "gaveWay": gave_way,
        "leftOut": left_out,
        "files": files,
        "bytes": sum(file["size"] for file in files),
    }


def asked(wishes):
    return [normal(wish["name"]) for wish in wishes]


def named(versions):
    return [{"name": name, "version": version} for name, version in versions.items()]


def resolve(request, wishes, there):
    """All packages that the wishes need besides what the runner has, and the order in which they are wanted.

    What the runner has stays in its version if that is possible at all. Only what kernels are made of has to, unless
    another version is asked for by name."""
    other = {normal(wish["name"]) for wish in wishes if is_other(Requirement(wish["text"]), there)}
    kept = there.keys() - other
    try:
        return ask_pip(request, wishes, {name: there[name] for name in kept})
    except Failed as failed:
        if "conflicting dependencies" not in failed.args[1]:
            raise
        with contextlib.suppress(Failed):
            return ask_pip(request, wishes, {name: there[name] for name in kept & with_needs(KERNEL, there)})
        raise


def is_other(wish, there):
    """Whether it is for something that the runner has in another version."""
    name = normal(wish.name)
    return name in there and not wish.specifier.contains(there[name].version, prereleases=True)


def ask_pip(request, wishes, held):
    with open("/data/constraints.txt", "w") as file:
        file.writelines(f"{name}=={one.version}\n" for name, one in held.items())
    arguments = ["install", "--dry-run", "--report", REPORT, "--constraint", "/data/constraints.txt"]
    pip(arguments + sources(request) + ["--"] + [wish["text"] for wish in wishes], ["-c", CAREFUL_PIP])
    with open(REPORT) as file:
        items = json.load(file)["install"]
    found, needed = [], {}
    for item in items:
        about, info = item["metadata"], item["download_info"]
        name = normal(about["name"])
        file = os.path.basename(urllib.parse.unquote(urllib.parse.urlsplit(info["url"]).path))
        digest = info.get("archive_info", {}).get("hashes", {}).get("sha256")
        found.append({"name": name, "version": about["version"], "digest": digest, "file": file})
        needed[name] = [normal(Requirement(need).name) for need in about.get("requires_dist", [])]
    order = list(dict.fromkeys(asked(wishes)))
    for name in order:
        order += [need for need in needed.get(name, ()) if need not in order]
    return found, order


def set_aside(versions, there):
    """What the runner has, does not go with these versions, and is not among them."""
    aside = []
    for name, one in there.items():
        if name in versions:
            continue
        for need in needs(one):
            version = versions.get(normal(need.name))
            if version and not need.specifier.contains(version, prereleases=True):
                aside.append({"name": name, "version": one.version, "needs": f"{normal(need.name)}{need.specifier}"})
                break
    lost = with_needs(KERNEL, there) & {one["name"] for one in aside}
    for one in aside:
        if one["name"] in lost:
            said = f"{one['name']} {one['version']}, which kernels of the runner are made of, needs {one['needs']}"
            raise Failed("incompatible", said)
    return aside


def settle(found, wishes):
    """What is left out because of clashes, and what has to be taken out of the wishes, before all is found anew."""
    earlier = {normal(wish["name"]): wish["earlier"] for wish in wishes}
    left_out = {}
    for clash in found:
        name, other = clash["name"], clash["other"]
        if name in left_out or other in left_out:
            continue
        if earlier.get(name):
            return [], clash
        if name in earlier:
            raise Failed("incompatible", f"{name} has the same files as {other} ({clash['module']}): ask for one of them")
        left_out[name] = clash
    for name in left_out:
        os.remove(wheels()[name])
    return list(left_out.values()), None


def clashes(order):
    """Each pair of packages that have one module, of which the first that is wanted is the `other`."""
    there, found, files = {}, {}, wheels()
    for name in sorted(files, key=lambda name: (order.index(name) if name in order else len(order), name)):
        for module, content in modules(files[name]).items():
            other, known = there.setdefault(module, (name, content))
            if known != content:
                found.setdefault((name, other), {"name": name, "other": other, "module": module})
    return list(found.values())


def modules(path):
    """The modules in a wheel, each with what tells its content from another's."""
    found = {}
    with contextlib.suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as wheel:
        for entry in wheel.infolist():
            file = re.sub(r"^[^/]+\.data/(?:purelib|platlib)/", "", entry.filename)
            folder, _, name = file.rpartition("/")
            top = file.partition("/")[0]
            if not name.endswith((".py", ".so")) or top.endswith((".dist-info", ".data")):
                continue
            parts = [*filter(None, folder.split("/")), name.partition(".")[0]]
            if parts[-1] == "__init__":
                parts.pop()
            if parts and parts[0] not in STRAY:
                found[".".join(parts)] = (entry.CRC, entry.file_size)
    return found


def wheels():
    """The wheels that were downloaded, by the names of their packages."""
    return {normal(os.path.basename(path).split("-")[0]): path for path in sorted(glob.glob(WHEELS + "/*.whl"))}


def download(request, found):
    """All files into WHEELS: from the cache, else by pip, which compares them with the hashes that it has just seen."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    os.mkdir(WHEELS)
    missing = [one for one in found if not take_from_cache(one["digest"], one["file"])]
    if not missing:
        return
    # pip wants all hashes or none.
    hashed = all(one["digest"] for one in missing)
    with open("/data/files.txt", "w") as file:
        for one in missing:
            digest = f" --hash=sha256:{one['digest']}" if hashed else ""
            file.write(f"{one['name']}=={one['version']}{digest}\n")
    pip(["wheel", "--no-deps", "--wheel-dir", WHEELS, "--requirement", "/data/files.txt"] + sources(request))


def take_from_cache(digest, name):
    """Copies a wheel under the name that it has at its source: it may have been kept under another."""
    for path in glob.glob(f"{CACHE}/{digest}/*.whl") if digest and name.endswith(".whl") else []:
        copy = f"{WHEELS}/{name}"
        # It may have been deleted to make room for what another install keeps.
        with contextlib.suppress(OSError):
            shutil.copyfile(path, copy)
            if describe(copy)["sha256"] == digest:
                return True
        with contextlib.suppress(FileNotFoundError):
            os.remove(copy)
    return False


def sources(request):
    arguments = ["--cache-dir", "/data/cache"]
    if not request["sourceBuilds"]:
        arguments += ["--only-binary", ":all:"]
    if not request["index"]:
        arguments.append("--no-index")
    if request["wheelhouse"]:
        arguments += ["--find-links", WHEELHOUSE]
    return arguments + ["--retries", "1", "--timeout", "10"]


def describe(path):
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": os.path.basename(path), "sha256": digest, "size": os.path.getsize(path)}


def pip(arguments, program=("-m", "pip")):
    with contextlib.suppress(FileNotFoundError):
        os.remove(LOG)
    command = [sys.executable, "-I", *program, "--log", LOG, *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if done.returncode:
        if not os.path.exists(LOG):
            raise Failed("broken", "this pip is built differently: the image needs another version of it")
        with open(LOG, errors="replace") as file:
            lines = [re.sub(r"^\d{4}-\S+ ", "", line.rstrip("\n")) for line in file]
        raise Failed(*diagnose(lines))


def diagnose(lines):
    """Why pip failed: a word and a sentence, without addresses, which may have a password in them."""
    text = "\n".join(lines)
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    said = re.sub(r"\w+://\S+", "(address)", " ".join(errors)).replace("ResolutionImpossible: for help visit (address)", "")
    said = said.strip() or "pip failed without a word"
    unreachable = re.search(r"Could not fetch URL \S+ (?!404 )[^\n]*", text)
    if "conflicting dependencies" in said:
        causes = re.search(r"The conflict is caused by:\n((?: {4}.*\n)+)", text + "\n")
        causes = " ".join((causes.group(1) if causes else "").replace("The user requested", "asked for:").split())
        return "incompatible", f"{said} {causes.replace('(constraint)', '(part of the runner)')}".strip()
    if "No matching distribution" in said:
        if unreachable:
            return "offline", silence(unreachable.group())
        return missing_version(said, text)
    if "File too large" in said or "No space left" in said or "Disk quota" in said:
        return "too_large", "a file is larger than one may be (RUN_FILE_SIZE)"
    if unreachable or "Connection" in said or "Max retries" in said:
        return "offline", silence(text)
    if not errors or said.startswith("Exception:"):
        return "broken", re.sub(r"\w+://\S+", "(address)", " ".join(lines[-5:]))
    return "incompatible", said


def missing_version(said, text):
    """Why nothing matches: there is no such version, or none that fits this Python and machine."""
    wanted = re.search(r"satisfies the requirement (\S+).*\(from versions: ([^)]*)\)", said)
    if not wanted:
        return ("incompatible" if any(mark in text for mark in UNFIT) else "not_found"), said
    wish, fitting = Requirement(wanted.group(1)), wanted.group(2).replace("none", "")
    known = shortened([version for version in fitting.split(", ") if version])
    python = "Python %d.%d" % sys.version_info[:2]
    if not any(wish.specifier.contains(version, prereleases=True) for version in unfit(normal(wish.name), text)):
        return "not_found", f"there is no {wish}" + (f": the versions are {known}" if known else "")
    said = f"{wish} has no wheel for {python} and this machine"
    return "incompatible", said + (f": versions that have one are {known}" if known else ", nor has any other version")


def unfit(name, text):
    """Versions of a package that pip has seen and that do not fit."""
    found = []
    for line in text.splitlines():
        if any(mark in line for mark in UNFIT):
            for file in re.findall(r"[\w.+!-]+(?:\.whl|\.tar\.gz|\.zip)", line):
                with contextlib.suppress(InvalidVersion, InvalidWheelFilename, ValueError):
                    found.append(version_of(name, file))
    return [version for version in found if version is not None]


def version_of(name, file):
    if file.endswith(".whl"):
        other, version, *_ = parse_wheel_filename(file)
        return version if other == name else None
    other, _, version = re.sub(r"\.(?:tar\.gz|zip)$", "", file).rpartition("-")
    return Version(version) if normal(other) == name else None


def shortened(versions):
    left_out = [f"{len(versions) - 2 * NAMED} more"] if len(versions) > 2 * NAMED else []
    first = versions[:NAMED] if left_out else versions
    return ", ".join([*first, *left_out, *(versions[-NAMED:] if left_out else [])])


def silence(text):
    """Why the index did not answer, in our own words: those of pip are full of addresses."""
    status = re.search(r"\b([45]\d\d) (?:Client|Server) Error", text)
    if status:
        return f"the package index answers with status {status.group(1)}"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "the certificate of the package index is not trusted: the operator can set PACKAGE_CA_BUNDLE"
    return "the package index cannot be reached"


main()
