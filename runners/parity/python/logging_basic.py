# logging to stderr, at its default level, from when it was imported.
import time

before = time.time_ns()
import logging

print(logging._startTime >= before)

logging.info("not shown")
logging.warning("shown: %s", {"a": 1})
logging.basicConfig(level=logging.DEBUG, format="%(levelname)s:%(name)s:%(message)s")
logging.getLogger("own").debug("debug now")
