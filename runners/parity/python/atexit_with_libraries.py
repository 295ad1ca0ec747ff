# Exit functions of libraries run before those that were registered earlier.
import atexit
import logging

atexit.register(print, "first registered, last run")


class Handler(logging.Handler):
    def emit(self, record):
        print("log", record.getMessage())

    def close(self):
        print("handler closed")
        super().close()


logging.getLogger().addHandler(Handler())
atexit.register(lambda: logging.warning("from an exit function"))
