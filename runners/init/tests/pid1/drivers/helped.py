"""A driver of the fork kind with a helper, which runs the programs that say PASS."""

import ctypes, json, os, socket, sys, time

PR_SET_DUMPABLE = 4
prctl = ctypes.CDLL(None).prctl


def exact(descriptor, length):
    data = b""
    while len(data) < length:
        chunk = os.read(descriptor, length - len(data))
        if not chunk:
            os._exit(0)
        data += chunk
    return data


def fork_away(told):
    """Return what the run process says on `told`; in the run process, return nothing."""
    waiting, telling = told
    middle = os.fork()
    if middle == 0:
        if os.fork():
            os._exit(0)
        os.close(waiting)
        os.setsid()
        prctl(PR_SET_DUMPABLE, 1)
        return None
    os.close(telling)
    os.waitpid(middle, 0)
    return waiting, os.read(waiting, 16)


def take_streams():
    channel = socket.socket(fileno=3)
    _, streams, _, _ = socket.recv_fds(channel, 1, 2)
    channel.detach()
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    while os.getppid() != 1:
        os.sched_yield()
    os.write(3, LINE % os.getpid())


def become(request):
    os.closerange(3 + ("cell" in request), 32)
    if "cell" in request:
        cells(request, lambda: json.loads(exact(3, int.from_bytes(exact(3, 4), "big"))))
    os.environ.update(request["env"])
    code = 0
    try:
        exec(compile(request["code"], "main.py", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def help(requests, answers):
    while True:
        number = exact(requests, 4)
        length = int.from_bytes(exact(requests, 4), "big")
        time.sleep(float(os.environ.get("LATE", "0")))
        told = os.pipe()
        starting, letting = os.pipe()
        forked = fork_away(told)
        if forked is None:
            request = json.loads(exact(requests, length))
            if not is_there(int.from_bytes(number, "big")):
                os._exit(1)
            take_streams()
            try:
                os.write(told[1], b"%d" % os.getpid())
            except BrokenPipeError:
                pass  # a kernel needs no driver, which PID 1 has ended by now
            os.close(letting)
            if os.read(starting, 1):
                os._exit(1)
            become(request)
        if forked[1] and is_there(int.from_bytes(number, "big")):
            os.write(answers, number)
        else:
            os.write(letting, b"!")
        for descriptor in (forked[0], starting, letting):
            os.close(descriptor)


def drive(requests, answers, helper):
    while True:
        told = os.pipe()
        forked = fork_away(told)
        if forked is None:
            os.write(told[1], b"%d" % os.getpid())
            length = exact(3, 4)
            request = exact(3, int.from_bytes(length, "big"))
            if b"PASS" in request:
                number = os.getpid().to_bytes(4, "big")
                prctl(PR_SET_DUMPABLE, 0)
                os.write(requests, number + length + request)
                if b"SLOWLY" in request:
                    time.sleep(60)
                while os.read(answers, 4) != number:
                    pass
                os._exit(0)
            take_streams()
            os.close(told[1])
            become(json.loads(request))
        os.write(3, b"ready %s %d\n" % (forked[1], helper))
        os.read(forked[0], 1)
        os.close(forked[0])
        while (first := exact(3, 1)) == b"\0":
            pass  # streams of a run that ended before it took them
        if first + exact(3, 4) != b"park\n":
            os._exit(1)


LINE = b"taken %d\n"
prctl(PR_SET_DUMPABLE, 0)
taking, passing = os.pipe()
hearing, answering = os.pipe()
helper = os.fork()
if helper:
    os.close(taking)
    os.close(answering)
    drive(passing, hearing, helper)
else:
    os.close(passing)
    os.close(hearing)
    help(taking, answering)
