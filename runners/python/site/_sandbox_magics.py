"""Magics and shell escapes that mean something else here than at home."""

import re

from IPython.core.magic import Magics, line_magic, magics_class

CLIENT = r"(?:sudo\s+)?(?:\S*python[\d.]*\s+-m\s+)?(?:pip[\d.]*|conda|mamba|micromamba|uv)"
INSTALLER = re.compile(rf"\s*{CLIENT}\s(?:[^|;&]*\s)?(?:install|add)\b([^|;&]*)")
WORD = re.compile(r"(?:^|\s)[\"']?([A-Za-z][\w.\-\[\],]*(?:[=<>~!]=?=?[\w.*]+)?)[\"']?(?=\s|$)")


def pointer(command):
    """What to do instead of a shell command that would install packages; None for any other. Nothing is forbidden."""
    installer = INSTALLER.match(command)
    if installer is None:
        return None
    packages = ", ".join(f'"{name}"' for name in WORD.findall(installer[1])) or '"name==version"'
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
        shell.register_magic_function(through_shell(shell, client), "line", client)


def through_shell(shell, client):
    def magic(line):
        shell.system(f"{client} {line}")

    return magic
