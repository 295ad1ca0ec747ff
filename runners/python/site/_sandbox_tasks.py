"""asyncio in a kernel: a task outlives the cell that made it, as in a notebook.

A cell without `await` has no running loop, which is why `asyncio.run()` works in it. What needs a loop all the same
gets the one that runs every cell with `await`: the task begins at the end of its cell, and goes on while later cells
wait for something. Between cells everything in the sandbox stands still.
"""

import asyncio
import functools
import threading
from asyncio import events, tasks

from IPython.core.async_helpers import get_asyncio_loop


def fit(_asyncio):
    """Nothing is left to do once this module is there."""


def offer_loop():
    """Set the loop before a cell, since `asyncio.run()` leaves none behind, and in the cell that imports asyncio."""
    asyncio.set_event_loop(get_asyncio_loop())


def begin_tasks():
    """Begin, after a cell, the tasks that it made."""
    loop = get_asyncio_loop()
    if asyncio.all_tasks(loop):
        # Without a task of our own, which these might cancel.
        loop.call_soon(loop.stop)
        loop.run_forever()


def _with_loop(create_task):
    @functools.wraps(create_task)
    def wrapper(coro, **options):
        if events._get_running_loop() is None and threading.current_thread() is threading.main_thread():
            return get_asyncio_loop().create_task(coro, **options)
        return create_task(coro, **options)

    return wrapper


asyncio.create_task = tasks.create_task = _with_loop(tasks.create_task)
if threading.current_thread() is threading.main_thread():
    offer_loop()
