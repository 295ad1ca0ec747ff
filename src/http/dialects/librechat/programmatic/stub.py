def __run(mark, tools, code):
    """Run code that calls the tools of its caller: each is a function to await, which leaves its call in a file, tells
    the server of it among the output, and waits for the file with the answer."""
    import ast, asyncio, inspect, itertools, json, linecache, os, sys

    name = "<program>"
    numbers = itertools.count(1)
    make = os.O_WRONLY | os.O_CREAT | os.O_EXCL

    async def call(tool, arguments):
        path = f"/data/.tool-{os.getpid()}-{next(numbers)}-{os.urandom(4).hex()}"
        with open(os.open(path, make, 0o644), "w") as file:
            file.write(f"{tool}\n{json.dumps(arguments, default=str)}")
        sys.stdout.flush()
        os.write(1, f'\x1e{mark}{{"call":"{os.path.basename(path)}"}}\x1e'.encode())
        answer, pause = path + ".answer", 0.002
        while not os.path.exists(answer):
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.05)
        with open(answer) as file:
            status, text = file.read().split("\n", 1)
        os.unlink(path)
        os.unlink(answer)
        if status != "ok":
            raise RuntimeError(f"{tool}: {text}")
        return json.loads(text)

    def function(tool):
        async def call_tool(*positional, **arguments):
            if positional and (arguments or len(positional) > 1 or not isinstance(positional[0], dict)):
                raise TypeError(f"{tool} takes its arguments by name, as in key=value")
            return await call(tool, positional[0] if positional else arguments)

        return call_tool

    def show(kind, error, trace):
        """Show an error as that of the program alone, without what is around it and in its functions here."""
        while trace is not None and trace.tb_frame.f_code.co_filename != name:
            trace = trace.tb_next
        frame = trace
        while frame is not None:
            while frame.tb_next is not None and frame.tb_next.tb_frame.f_code.co_filename == __file__:
                frame.tb_next = frame.tb_next.tb_next
            frame = frame.tb_next
        shown(kind, error.with_traceback(trace), trace)

    shown, sys.excepthook = sys.excepthook, show
    linecache.cache[name] = len(code), None, code.splitlines(True), name
    program = globals()
    del program["__run"]
    program.update((identifier, function(tool)) for identifier, tool in tools.items())
    compiled = compile(code, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    if compiled.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(compiled, program))
    else:
        exec(compiled, program)
