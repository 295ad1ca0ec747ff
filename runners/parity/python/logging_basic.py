# logging to stderr, at its default level.
import logging

logging.info("not shown")
logging.warning("shown: %s", {"a": 1})
logging.basicConfig(level=logging.DEBUG, format="%(levelname)s:%(name)s:%(message)s")
logging.getLogger("own").debug("debug now")
