#!/usr/bin/env python3
"""Checks the documents without a network: links, headings and files that they name are there, and those that are
meant to be short are. Prints each mistake, and fails if there is one.

    tests/documents.py [DIRECTORY]    the repository, or a copy of it
"""

import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
NOT_OURS = {".git", ".build", "node_modules", "sandboxes", "target", ".venv"}
# Somebody who is new here reads these first, so they stay short.
MAX_BYTES = {"ARCHITECTURE.md": 10_240, "SECURITY.md": 4_096}
# Documents that say where things are in the sources.
MAPS = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/design/*.md"]
SOURCES = {".rs", ".py", ".sh", ".js", ".ts", ".mjs", ".toml", ".yml", ".service", ".conf", ""}

LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE_BLOCK = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
PATH = re.compile(r"`((?:src|tests|runners|scripts|static|deploy|fuzz|bench|docs)/[\w./*-]+)`")
DOCUMENT = re.compile(r"\b((?:docs/[\w/-]+|ARCHITECTURE|CONTRIBUTING|SECURITY|runners/PROTOCOL)\.md)\b")


def files():
    """All files of the project."""
    for directory, folders, names in os.walk(ROOT):
        folders[:] = sorted(set(folders) - NOT_OURS)
        yield from (Path(directory, name) for name in sorted(names))


def anchors(document):
    """The addresses of a document's headings, as GitHub makes them."""
    found = {}
    for heading in HEADING.findall(CODE_BLOCK.sub("", document.read_text())):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).strip().replace(" ", "-")
        times = found[slug] = found.get(slug, -1) + 1
        if times:
            found[f"{slug}-{times}"] = 0
    return found


def broken_links(document):
    """Relative links of a document that lead nowhere."""
    for link in LINK.findall(CODE_BLOCK.sub("", document.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = document.parent / path if path else document
        if not target.exists():
            yield f"there is no {link}"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{link}: no heading of {target.name} is called that"


def mistakes():
    """What is wrong, as file and sentence."""
    for file in files():
        name = file.relative_to(ROOT)
        if file.suffix == ".md":
            yield from ((name, broken) for broken in broken_links(file))
        elif file.suffix in SOURCES and file.is_file() and file != Path(__file__).resolve():
            for document in set(DOCUMENT.findall(file.read_text(errors="replace"))):
                if not (ROOT / document).exists():
                    yield name, f"there is no {document}"
    for pattern in MAPS:
        for document in ROOT.glob(pattern):
            for path in PATH.findall(CODE_BLOCK.sub("", document.read_text())):
                if not any(ROOT.glob(path.rstrip("/"))):
                    yield document.relative_to(ROOT), f"there is no {path}"
    for name, most in MAX_BYTES.items():
        size = (ROOT / name).stat().st_size
        if size > most:
            yield name, f"has {size} bytes, which is more than {most}: move details to docs/"


found = [f"{name}: {mistake}" for name, mistake in mistakes()]
print("\n".join(found) or "The documents lead somewhere.")
sys.exit(bool(found))
