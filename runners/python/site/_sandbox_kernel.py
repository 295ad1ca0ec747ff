"""A kernel: IPython's own shell, which is given one cell after the other; see runners/PROTOCOL.md, section 6.

What it answers is a hint to PID 1 that a cell is over, and no more. Output goes straight to the two streams, pictures
go to /data like the figures of a program, and the server observes both itself.
"""

import ctypes
import json
import os
import signal
import sys

import _sandbox_records as records
from _sandbox_display import offer
from _sandbox_hooks import HOOKS
from _sandbox_input import give, renew, take_away
from _sandbox_shell import is_calm_exit, keep_figures, make_shell

CHANNEL = 3
LIBC = ctypes.CDLL(None)
WHERE_NOT_LOADED_AHEAD = {
    "asyncio": ("_sandbox_tasks", "fit"),
    "pandas": ("_sandbox_libraries", "show_columns"),
}


def serve():
    """Run the cell that the driver was given, and all that follow."""
    import warnings

    from _sandbox_driver import first_cell as request

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    HOOKS.update(WHERE_NOT_LOADED_AHEAD)
    os.set_inheritable(CHANNEL, False)
    sys.argv[:] = [""]
    shell, own = make_shell(), os.getpid()
    warnings.filterwarnings("ignore", "To exit: use 'exit', 'quit', or Ctrl-D.")
    warnings.filterwarnings("ignore", "coroutine 'InteractiveShell.run_cell_async' was never awaited")
    while True:
        wants_records = records.begin(request["env"])
        offer(shell.display_formatter, wants_records)
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
        shell.tell(type(error), error, f"{type(error).__name__}: {error}")
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
