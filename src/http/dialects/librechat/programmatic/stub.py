def __run(mark, tools, code):
    """Run code that calls the tools of its caller: each is a function to await, which leaves its call in a file, tells
    the server of it among the output, and waits for the file with the answer."""
    import ast, asyncio, inspect, itertools, json, linecache, os, sys
    # The program shares the namespace of what is defined here, and may give these names to something else.
    from builtins import RuntimeError, SyntaxError, TypeError, dict, isinstance, len, min, next, open, str

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
        whole = ast.parse("async def __program(): pass")
        whole.body[0].body = ast.parse(code, name).body
        [body] = [it for it in compile(whole, name, "exec", dont_inherit=True).co_consts if inspect.iscode(it)]
        return body.replace(co_name="<module>", co_qualname="<module>")

    def cut(trace):
        """The frames of the program and of what it calls, without those from here."""
        frames = []
        while trace is not None:
            if trace.tb_frame.f_code.co_filename != own:
                frames.append(trace)
            trace = trace.tb_next
        for frame, following in itertools.pairwise([*frames, None]):
            frame.tb_next = following
        return frames[0] if frames else None

    def show(kind, error, trace):
        """Show an error, those that led to it and those that it is a group of, as of the program alone."""
        while trace is not None and trace.tb_frame.f_code.co_filename != name:
            trace = trace.tb_next
        error.__traceback__ = trace
        rest, known = [error], set()
        while rest:
            one = rest.pop()
            if one is not None and id(one) not in known:
                known.add(id(one))
                one.__traceback__ = cut(one.__traceback__)
                rest += one.__cause__, one.__context__, *getattr(one, "exceptions", ())
        shown(kind, error, error.__traceback__)

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
