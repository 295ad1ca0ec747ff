"""A driver of the fork kind, as small as can be: runs Python code with exec()."""

import ctypes, json, os, socket, struct, sys, time

PR_SET_DUMPABLE = 4
prctl = ctypes.CDLL(None).prctl
channel = socket.socket(fileno=3)


def exact(length):
    data = b""
    while len(data) < length:
        chunk = channel.recv(length - len(data))
        if not chunk:
            os._exit(0)
        data += chunk
    return data


def take_streams():
    _, streams, _, _ = socket.recv_fds(channel, 1, 2)
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    os.write(3, b"taken %d\n" % os.getpid())


def run_process(taken):
    (length,) = struct.unpack(">I", exact(4))
    request = json.loads(exact(length))
    take_streams()
    if "cell" not in request:
        channel.close()
    os.close(taken)
    os.setsid()
    if "cell" in request:
        cells(request, lambda: json.loads(exact(struct.unpack(">I", exact(4))[0])))
    os.environ.update(request["env"])
    code = 0
    try:
        exec(compile(request["code"], "main.py", "exec"), {"__name__": "__main__", "stdin": request.get("stdin")})
    except SystemExit as end:
        code = end.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def park():
    waiting, taken = os.pipe()
    middle = os.fork()
    if middle == 0:
        prctl(PR_SET_DUMPABLE, 1)
        child = os.fork()
        if child == 0:
            os.close(waiting)
            run_process(taken)
        os.write(3, b"ready %d\n" % child)
        time.sleep(float(os.environ.get("SLOW", "0")))
        os._exit(0)
    os.close(taken)
    os.waitpid(middle, 0)
    os.read(waiting, 1)
    os.close(waiting)


prctl(PR_SET_DUMPABLE, 0)
while True:
    park()
    while (first := exact(1)) == b"\0":
        pass  # streams of a run that ended before it took them
    if first + exact(4) != b"park\n":
        os._exit(1)
