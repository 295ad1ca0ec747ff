"""Magics and shell escapes that mean something else here than elsewhere."""

import re
import shlex

from IPython.core.magic import Magics, line_magic, magics_class

CLIENT = r"(?:sudo\s+)?(?:\S*python[\d.]*\s+-m\s+)?(?:pip[\d.]*|conda|mamba|micromamba|uv)"
INSTALLER = re.compile(rf"\s*{CLIENT}\s(?:[^|;&]*\s)?(?:install|add)\b([^|;&]*)")
VERSION = r"(?:[=~!]=?=?|[<>]=?(?=\d))[\w*][\w.*+!-]*"
PACKAGE = re.compile(rf"(?:[\w.-]+::)?([A-Za-z][\w.-]*(?:\[[\w.,-]*\])?(?:{VERSION}(?:,{VERSION})*)?)")
REDIRECTION = re.compile(r"\d*[<>]+(.*)")
LISTS = {"-r", "--requirement", "--file"}
# Options whose value is the next word, of pip, conda and uv.
VALUED = LISTS | {
    "-c", "-e", "-f", "-i", "-n", "-p", "-t", "--cache-dir", "--cert", "--channel", "--constraint", "--default-index",
    "--editable", "--extra", "--extra-index-url", "--find-links", "--group", "--index", "--index-url", "--log",
    "--name", "--no-binary", "--only-binary", "--platform", "--prefix", "--progress-bar", "--proxy", "--python",
    "--python-version", "--retries", "--root", "--src", "--target", "--timeout", "--trusted-host", "--upgrade-strategy",
}  # fmt: skip


def pointer(command):
    """Say what to do instead of a command that would install packages; None for any other. Nothing is forbidden."""
    installer = INSTALLER.match(command)
    if installer is None:
        return None
    packages = ", ".join(wanted(installer[1])) or '"name==version"'
    return (
        "Packages are not installed from here: there is no way to an index. Call the tool install_packages with "
        f'{{"language": "python", "packages": [{packages}]}} and this conversationId; then import them.'
    )


def wanted(arguments):
    """Yield the packages that a client should install, each in a form that can be passed on."""
    try:
        words = iter(shlex.split(arguments))
    except ValueError:  # a quotation that does not end
        words = iter(re.split(r"[\s'\"]+", arguments))
    for word in words:
        option, has_value, value = word.partition("=")
        if word.startswith("#"):
            return
        if redirection := REDIRECTION.fullmatch(word):
            if not redirection[1]:
                next(words, None)
        elif word.startswith("-r") and word != "-r":
            yield f"the names in {word[2:]}"
        elif option in VALUED:
            value = value if has_value else next(words, "")
            if option in LISTS:
                yield f"the names in {value}"
        elif package := PACKAGE.fullmatch(word.replace(" ", "")):
            yield f'"{package[1]}"'


@magics_class
class SandboxMagics(Magics):
    @line_magic
    def matplotlib(self, line):
        """Do nothing: figures are saved when the cell ends, whatever backend is asked for."""

    @line_magic
    def config(self, line):
        """Work as usual, except that there is no inline backend to configure."""
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
