# Starts processes until it cannot, and leaves them behind.
import errno
import os

limit = int(os.environ["LIMIT"])
made = 0
try:
    while made < limit + 64:
        os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
        made += 1
    print("past", made, flush=True)
except OSError as error:
    print("stopped", made, errno.errorcode[error.errno], flush=True)
os._exit(0)
