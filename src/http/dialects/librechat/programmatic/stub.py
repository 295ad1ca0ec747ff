def __run(mark, tools, code):
    """Run code that calls the tools of its caller: each is a function to await, which leaves its call in a file, tells
    the server of it among the output, and waits for the file with the answer."""
    import ast, asyncio, inspect, itertools, json, linecache, os, sys
    # The program shares the namespace of what is defined here, and may give these names to something else.
    from builtins import RuntimeError, SyntaxError, TypeError, dict, isinstance, len, min, next, open

    name, own = "<program>", __file__
    channel = os.dup(1)
    numbers = itertools.count(1)

    async def call(tool, arguments):
        text = f"{tool}\n{json.dumps(arguments, default=str)}"
        path = f"/data/.tool-{os.getpid()}-{next(numbers)}-{os.urandom(4).hex()}"
        answer, pause = path + ".answer", 0.002
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
            if sys.stdout is not None:
                sys.stdout.flush()
            os.write(channel, f'\x1e{mark}{{"call":"{os.path.basename(path)}"}}\x1e'.encode())
            while not os.path.exists(answer):
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.05)
            with open(answer, encoding="utf-8", newline="") as file:
                status, text = file.read().split("\n", 1)
        finally:
            for left in path, answer:
                if os.path.exists(left):
                    os.unlink(left)
        if status != "ok":
            raise RuntimeError(f"{tool}: {text}")
        return json.loads(text)

    def function(tool):
        async def call_tool(*positional, **arguments):
            if positional and (arguments or len(positional) > 1 or not isinstance(positional[0], dict)):
                raise TypeError(f"{tool} takes its arguments by name, as in key=value")
            return await call(tool, positional[0] if positional else arguments)

        return call_tool

    def compiled():
        """The program, which can await and return at its top."""
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        try:
            return compile(code, name, "exec", flags, True)
        except SyntaxError as error:
            if error.msg != "'return' outside function":
                raise
        whole, inner = ast.parse("async def __program(): pass\nawait __program()"), ast.parse(code, name)
        whole.body[0].body = inner.body
        return compile(whole, name, "exec", flags, True)

    def show(kind, error, trace):
        """Show an error as that of the program alone, without what is around it and in its functions here."""
        while trace is not None and trace.tb_frame.f_code.co_filename != name:
            trace = trace.tb_next
        frame = trace
        while frame is not None:
            while frame.tb_next is not None and frame.tb_next.tb_frame.f_code.co_filename == own:
                frame.tb_next = frame.tb_next.tb_next
            frame = frame.tb_next
        shown(kind, error.with_traceback(trace), trace)

    shown, sys.excepthook = sys.excepthook, show
    linecache.cache[name] = len(code), None, code.splitlines(True), name
    program = globals()
    del program["__run"]
    program["asyncio"] = asyncio  # as those who write such programs are told
    program.update((identifier, function(tool)) for identifier, tool in tools.items())
    if (body := compiled()).co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(body, program))
    else:
        exec(body, program)
