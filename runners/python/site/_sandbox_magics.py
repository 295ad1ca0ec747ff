"""Magics and shell escapes that mean something else here than at home."""

import re
import sys

from IPython.core.magic import Magics, line_magic, magics_class

INSTALLER = re.compile(r"\s*(?:sudo\s+)?(?:\S*python[\d.]*\s+-m\s+)?(?:pip[\d.]*|conda|mamba|micromamba|uv)\b")
COMMAND = re.compile(r"\binstall\b|\badd\b")
WORD = re.compile(r"(?:^|\s)[\"']?([A-Za-z][\w.\-\[\],]*(?:[=<>~!]=?=?[\w.*]+)?)[\"']?(?=\s|$)")


def is_installer(command):
    """Whether a shell command would call a package client. A hint is given for it, nothing is forbidden."""
    return INSTALLER.match(command) is not None


def pointer(command):
    """What to do instead."""
    _, _, rest = COMMAND.sub("\0", command, count=1).partition("\0")
    packages = ", ".join(f'"{name}"' for name in WORD.findall(rest)) or '"name==version"'
    return (
        "Packages are not installed from here: there is no way to an index. Call the tool install_packages with "
        f'{{"language": "python", "packages": [{packages}]}} and this conversationId; then import them.'
    )


@magics_class
class SandboxMagics(Magics):
    @line_magic
    def matplotlib(self, line):
        """Figures are saved when the cell ends, whatever backend is asked for."""

    @line_magic
    def config(self, line):
        """As ever, but there is no inline backend to configure."""
        if not line.strip().startswith("InlineBackend"):
            self.shell.magics_manager.registry["ConfigMagics"].config(line)


def register(shell):
    shell.register_magics(SandboxMagics)
    for client in ("conda", "mamba", "micromamba", "pip", "uv"):
        shell.register_magic_function(refuse(client), "line", client)


def refuse(client):
    def magic(line):
        print(pointer(f"{client} {line}"), file=sys.stderr)

    return magic
