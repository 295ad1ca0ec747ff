# SIGTERM is not handled by default.
import os
import signal

os.kill(os.getpid(), signal.SIGTERM)
