"""A kernel: IPython's own shell, which is given one cell after the other; see runners/PROTOCOL.md, section 6.

What it answers is a hint to PID 1 that a cell is over, and no more. Output goes straight to the two streams, pictures
go to /data like the figures of a program, and the server observes both itself.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys

from IPython.core.displayhook import DisplayHook as TerminalHook
from IPython.core.displaypub import DisplayPublisher as TerminalPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from _sandbox_display import forms, show
from _sandbox_hooks import HOOKS
from _sandbox_input import give, renew, take_away
from _sandbox_magics import pointer, register

CHANNEL = 3
LIBC = ctypes.CDLL(None)


class DisplayHook(TerminalHook):
    """Shows the value of a cell without prompts."""

    def start_displayhook(self):
        pass

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        show(format_dict)

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
        print(self.InteractiveTB.stb2text(stb), file=sys.stderr)

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


def serve():
    """Run the cell that the driver was given, and all that follow."""
    import warnings

    from _sandbox_driver import first_cell as request

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    HOOKS["pandas"] = ("_sandbox_libraries", "show_columns")  # where it is not loaded ahead
    os.set_inheritable(CHANNEL, False)
    sys.argv[:] = [""]
    shell, own = make_shell(), os.getpid()
    warnings.filterwarnings("ignore", "To exit: use 'exit', 'quit', or Ctrl-D.")
    warnings.filterwarnings("ignore", "coroutine 'InteractiveShell.run_cell_async' was never awaited")
    while True:
        os.environ.update(request["env"])
        text = request.pop("stdin", None)
        if text is not None:
            give(text)
            renew()
        status = run(shell, request["code"])
        if os.getpid() != own:
            os._exit(0)  # the code forked, and this child came back from it
        if text is not None:
            take_away()
            renew()
        flush()
        os.write(CHANNEL, f"done {request['cell']} {status}\n".encode())
        request = json.loads(read(int.from_bytes(read(4), "big")))


def run(shell, code):
    """Run a cell, and return the word for how it ended. An interrupt can come at any moment of it, and only then."""
    status = "interrupted"
    try:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if "asyncio" in sys.modules:
                tasks().offer_loop()
            status = word(shell.run_cell(code, store_history=True))
            if "asyncio" in sys.modules:
                tasks().begin_tasks()
        finally:
            shell.history_manager.outputs.clear()
            shell.history_manager.exceptions.clear()
            keep_figures()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except SystemExit as error:
        # From a task of the cell, which ends the loop that it begins in.
        shell.showtraceback(exception_only=True)
        if not is_calm_exit(error):
            status = "error"
    except Exception as error:
        # The shell itself gave up, as on code that is nested too deep for the compiler.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        status = "error"
    return status


def word(result):
    error = result.error_before_exec or result.error_in_exec
    if error is None or is_calm_exit(error):
        return "ok"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "error"


def tasks():
    import _sandbox_tasks

    return _sandbox_tasks


def keep_figures():
    """Save and close the figures that a cell leaves open. Only a program that draws has loaded what does that."""
    figures = sys.modules.get("_sandbox_figures")
    if figures is not None:
        figures.save_and_close()


def flush():
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # closed or replaced by the program
    LIBC.fflush(None)


def read(length):
    data = bytearray()
    while len(data) < length:
        chunk = os.read(CHANNEL, length - len(data))
        if not chunk:
            os._exit(0)
        data += chunk
    return bytes(data)
