"""Finds out what has to be installed for some requirements, and downloads it.

Runs in a container of its own, with a directory of its own as /data: no conversation's code or file is here. What is
asked for comes in the environment, what was found goes to standard output as one JSON object. pip does the work.
"""

import contextlib
import glob
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

from pip._vendor.packaging.requirements import Requirement

WHEELHOUSE = "/packages/wheelhouse"
CACHE = "/packages/cache"
WHEELS = "/data/wheels"
LOG = "/data/pip.log"
REPORT = "/data/report.json"
# Distributions that are loaded before a program starts, with everything they need: these cannot be replaced. pandas
# loads pyarrow if it is there, without needing it.
LOADED_AHEAD = ("numpy", "pandas", "matplotlib", "ipython", "pyarrow")
# What pip's log says when something is there but does not fit.
UNFIT = (
    "none of the wheel's tags",
    "No sources permitted",
    "requires a different Python",
    "require a different python version",
)

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
    there = {normal(found.name): found.version for found in importlib.metadata.distributions()}
    try:
        for name in replaced(request, there):
            del there[name]
        found, wanted = resolve(request, there)
        if len(found) > request["mostPackages"]:
            raise Failed("too_large", f"{len(found)} packages are needed, at most {request['mostPackages']} may be")
        download(request, wanted)
        files = [describe(path) for path in sorted(glob.glob(WHEELS + "/*.whl"))]
        answer = {"outcome": "fetched", "packages": found, "files": files, "provided": provided(request, there)}
        answer["bytes"] = sum(file["size"] for file in files)
    except Failed as failed:
        reason, detail = failed.args
        answer = {"outcome": "failed", "reason": reason, "detail": detail[:2000]}
    print(json.dumps(answer))


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def replaced(request, there):
    """Names of what the runner has in a version other than the one that was asked for."""
    names, ahead = [], loaded_ahead()
    for wanted in request["requirements"]:
        one = Requirement(wanted["text"])
        name = normal(one.name)
        if name not in there or one.specifier.contains(there[name], prereleases=True):
            continue
        if name not in ahead:
            names.append(name)
        elif wanted["earlier"]:
            # Asked for by an earlier call, when the runner did not have it.
            wanted["text"] = wanted["text"].removesuffix(wanted["versions"])
        else:
            said = f"{name} {there[name]} is part of the runner and loaded before a program starts"
            raise Failed("incompatible", f"{said}, so it has this version only")
    return names


def loaded_ahead():
    """LOADED_AHEAD and whatever they need."""
    names, waiting = set(), list(LOADED_AHEAD)
    while waiting:
        name = waiting.pop()
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        names.add(name)
        needs = [Requirement(need) for need in needs]
        needs = {normal(need.name) for need in needs if not need.marker or need.marker.evaluate({"extra": ""})}
        waiting.extend(needs - names)
    return names


def provided(request, there):
    """What was asked for and is part of the runner."""
    names = [normal(wanted["name"]) for wanted in request["requirements"]]
    return [{"name": name, "version": there[name]} for name in names if name in there]


def resolve(request, there):
    """All packages that the requirements need besides those of the runner, and the hashes and names of their files."""
    with open("/data/constraints.txt", "w") as file:
        file.writelines(f"{name}=={version}\n" for name, version in there.items())
    arguments = ["install", "--dry-run", "--report", REPORT, "--constraint", "/data/constraints.txt"]
    arguments += sources(request) + ["--"] + [wanted["text"] for wanted in request["requirements"]]
    pip(arguments, ["-c", CAREFUL_PIP])
    with open(REPORT) as file:
        items = json.load(file)["install"]
    found, files = [], []
    for item in items:
        name, version = normal(item["metadata"]["name"]), item["metadata"]["version"]
        found.append({"name": name, "version": version})
        info = item["download_info"]
        file = os.path.basename(urllib.parse.unquote(urllib.parse.urlsplit(info["url"]).path))
        files.append((name, version, info.get("archive_info", {}).get("hashes", {}).get("sha256"), file))
    return found, files


def download(request, wanted):
    """All files into WHEELS: from the cache, else by pip, which compares them with the hashes that it has just seen."""
    missing = [one for one in wanted if not take_from_cache(digest=one[2], name=one[3])]
    if not missing:
        return
    # pip wants all hashes or none.
    hashed = all(digest for _, _, digest, _ in missing)
    with open("/data/files.txt", "w") as file:
        for name, version, digest, _ in missing:
            file.write(f"{name}=={version}" + (f" --hash=sha256:{digest}\n" if hashed else "\n"))
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
        if any(mark in text for mark in UNFIT):
            return "incompatible", said + ". What there is does not fit this Python and machine, or has no wheel"
        return "not_found", said
    if "File too large" in said or "No space left" in said or "Disk quota" in said:
        return "too_large", "a file is larger than one may be (RUN_FILE_SIZE)"
    if unreachable or "Connection" in said or "Max retries" in said:
        return "offline", silence(text)
    if not errors or said.startswith("Exception:"):
        return "broken", re.sub(r"\w+://\S+", "(address)", " ".join(lines[-5:]))
    return "incompatible", said


def silence(text):
    """Why the index did not answer, in our own words: those of pip are full of addresses."""
    status = re.search(r"\b([45]\d\d) (?:Client|Server) Error", text)
    if status:
        return f"the package index answers with status {status.group(1)}"
    if "CERTIFICATE" in text.upper():
        return "the certificate of the package index is not trusted: the operator can set PACKAGE_CA_BUNDLE"
    return "the package index cannot be reached"


main()
