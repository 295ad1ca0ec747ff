#!/usr/bin/env python3
"""Modules import only what is further right in the order that ARCHITECTURE.md states."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
#: What is not part of the order: the roots of the program, which name its modules.
ROOTS = {"lib", "main", "healthcheck"}
TESTS = "#[cfg(test)]\nmod tests"


def stated_order() -> list[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.split("## The order of imports")[1].split("\n## ")[0]
    line = next(line for line in section.splitlines() if line.startswith("`") and "\u2192" in line)
    beside = re.search(r"^Below all .*$", section, re.MULTILINE)
    assert beside, "ARCHITECTURE.md does not say what is below all"
    return [name.strip() for name in line.strip("`").split("\u2192")] + re.findall(r"`(\w+)`", beside[0])


def imports(path: Path) -> set[str]:
    code = path.read_text().split(TESTS)[0]
    code = re.sub(r"//.*", "", code)
    return set(re.findall(r"\bcrate::(\w+)", code)) | {
        name.strip().split("::")[0]
        for group in re.findall(r"\bcrate::\{([^}]*)\}", code)
        for name in group.split(",")
        if name.strip()
    }


def main() -> int:
    order = stated_order()
    rank = {name: place for place, name in enumerate(order)}
    modules = {path.stem for path in SOURCE.glob("*.rs")} - ROOTS
    problems = [f"{name} is not in the order of imports" for name in sorted(modules - rank.keys())]
    problems += [f"{name} is in the order of imports and not in src" for name in sorted(rank.keys() - modules)]
    for path in sorted(SOURCE.rglob("*.rs")):
        relative = path.relative_to(SOURCE)
        module = relative.parts[0].removesuffix(".rs")
        if module not in rank or path.stem == "tests" or "tests" in relative.parts:
            continue
        for name in sorted(imports(path) & rank.keys()):
            if rank[name] < rank[module]:
                problems.append(f"src/{relative} imports {name}, which is left of {module}")
    print(*problems, sep="\n", end="\n" if problems else "")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
