# Exit functions run after an uncaught error too.
import atexit

atexit.register(print, "cleaned up")
raise RuntimeError("failed")
