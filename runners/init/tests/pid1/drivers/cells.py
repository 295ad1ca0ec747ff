"""The part of a kernel that both drivers share: runs cells with exec() in one namespace, forever."""

import os, signal, sys, traceback


def cells(request, another):
    namespace = {"__name__": "__main__", "channel": 3}
    while True:
        os.environ.update(request["env"])
        namespace["stdin"] = request.get("stdin")
        status = b"ok"
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            exec(compile(request["code"], "cell.py", "exec"), namespace)
        except KeyboardInterrupt:
            status = b"interrupted"
        except Exception:
            traceback.print_exc()
            status = b"error"
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(3, b"done %d %s\n" % (request["cell"], status))
        request = another()


