"""IPython's own shell, as a kernel has it: what a notebook shows goes to the streams of the run, and to /data."""

import contextlib
import sys

from IPython.core.displayhook import DisplayHook as TerminalHook
from IPython.core.displaypub import DisplayPublisher as TerminalPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

import _sandbox_records as records
from _sandbox_display import forms, show
from _sandbox_magics import pointer, register


class DisplayHook(TerminalHook):
    """Shows the value of a cell without prompts."""

    def start_displayhook(self):
        pass

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        show(format_dict, "result")

    def finish_displayhook(self):
        pass


class DisplayPublisher(TerminalPublisher):
    """Does what `display()` asks for."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        show(data)

    def clear_output(self, wait=False):
        pass


class Shell(InteractiveShell):
    displayhook_class = Type(DisplayHook)
    display_pub_class = Type(DisplayPublisher)

    def _showtraceback(self, etype, evalue, stb):
        self.tell(etype, evalue, self.InteractiveTB.stb2text(stb))

    def tell(self, kind, error, traceback):
        """Print an error with its traceback."""
        with records.failure(kind, error) if records.are_wanted() else contextlib.nullcontext():
            print(traceback, file=sys.stderr)

    def showtraceback(self, *args, **kwargs):
        if not is_calm_exit(sys.exc_info()[1]):
            super().showtraceback(*args, **kwargs)

    def system(self, cmd):
        command = self.var_expand(cmd, depth=1)
        if instead := pointer(command):
            print(instead, file=sys.__stderr__)  # must be seen even where output is captured
            self.user_ns["_exit_code"] = 1
            return
        sys.stdout.flush()
        self.user_ns["_exit_code"] = call_shell(command)

    system_piped = system_raw = system

    def getoutput(self, cmd, split=True, depth=0):
        command = self.var_expand(cmd, depth=depth + 1)
        if instead := pointer(command):
            print(instead, file=sys.__stderr__)
            return super().getoutput("", split=split, depth=depth + 1)
        return super().getoutput(cmd, split=split, depth=depth + 1)

    def run_cell(self, *args, **kwargs):
        result = super().run_cell(*args, **kwargs)
        if self.is_captured():
            keep_figures()  # a cell within one, as %%capture runs it
        return result

    def is_captured(self):
        """Whether something collects what is displayed."""
        return not isinstance(self.display_pub, DisplayPublisher)

    def _tee(self, channel):
        """Keep no copy of what is printed: nobody exports a notebook from here."""
        return contextlib.nullcontext()

    def enable_gui(self, gui=None):
        """There are no windows."""

    def ask_exit(self):
        print("The kernel goes on: to begin with a new one, run with restart: true.", file=sys.stderr)


def call_shell(command):
    import subprocess
    from subprocess import PIPE, STDOUT

    arguments = ["/bin/sh", "-c", command]
    if sys.stdout is sys.__stdout__:
        return subprocess.call(arguments)
    # Something collects what is printed, and gets both streams as one, as in Jupyter.
    with subprocess.Popen(arguments, stdout=PIPE, stderr=STDOUT, text=True, errors="replace") as shell:
        for line in shell.stdout:
            sys.stdout.write(line)
    return shell.returncode


def is_calm_exit(error):
    """`sys.exit()` ends the cell as it would end a program: silently when all is well."""
    return isinstance(error, SystemExit) and error.code in (None, 0)


def make_shell():
    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.colors = "nocolor"
    shell = Shell.instance(config=settings)
    forms(shell.display_formatter)
    register(shell)
    return shell


def keep_figures():
    """Save and close the figures that a cell leaves open. Only a program that draws has loaded what does that."""
    figures = sys.modules.get("_sandbox_figures")
    if figures is not None:
        figures.save_and_close()
