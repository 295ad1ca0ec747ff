"""The Python SDK of E2B: sandboxes, their files and their commands. Its environment has E2B_API_KEY, E2B_API_URL and
E2B_SANDBOX_URL, and nothing else is set.
"""

import io

from e2b_code_interpreter import (
    CommandExitException,
    FileNotFoundException,
    NotFoundException,
    Sandbox,
    SandboxQuery,
    TimeoutException,
)


def raises(kind, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def files(sandbox):
    sandbox.files.write("/home/user/a.txt", "hello")
    assert sandbox.files.read("a.txt") == "hello"
    sandbox.files.write_files([{"path": "b.txt", "data": "1"}, {"path": "d/c.txt", "data": b"2"}])
    sandbox.files.write("e.bin", io.BytesIO(b"\0\xff" * 100_000))
    assert bytes(sandbox.files.read("e.bin", format="bytes")) == b"\0\xff" * 100_000
    assert {entry.name for entry in sandbox.files.list("/home/user")} == {"a.txt", "b.txt", "d", "e.bin"}
    assert [entry.path for entry in sandbox.files.list("d")] == ["/home/user/d/c.txt"]
    info = sandbox.files.get_info("d/c.txt")
    assert (info.size, info.path) == (1, "/home/user/d/c.txt"), info
    assert sandbox.files.exists("a.txt") and not sandbox.files.exists("nope")
    raises(FileNotFoundException, sandbox.files.read, "nope")
    assert sandbox.files.rename("b.txt", "d/f.txt").path == "/home/user/d/f.txt"
    assert sandbox.files.make_dir("g/h") and not sandbox.files.make_dir("g/h")
    assert sandbox.files.rename("d", "g/d").path == "/home/user/g/d"
    sandbox.files.remove("g")
    assert not sandbox.files.exists("g")


def commands(sandbox):
    printed = []
    result = sandbox.commands.run("echo out; echo err >&2; cat ~/a.txt", on_stdout=printed.append)
    assert (result.stdout, result.stderr, result.exit_code) == ("out\nhello", "err\n", 0), result
    assert "".join(printed) == result.stdout
    result = sandbox.commands.run("echo $A $B; pwd", envs={"B": "b"}, cwd="/home/user/sub")
    assert result.stdout.startswith("a b\n") and result.stdout.rstrip().endswith("/sub"), result
    failed = raises(CommandExitException, sandbox.commands.run, "echo no >&2; exit 3")
    assert (failed.exit_code, failed.stderr) == (3, "no\n"), failed
    raises(TimeoutException, sandbox.commands.run, "sleep 60", timeout=1)
    handle = sandbox.commands.run("echo begun; sleep 60", background=True)
    assert handle.pid in [process.pid for process in sandbox.commands.list()]
    assert next(iter(handle))[0] == "begun\n"
    assert sandbox.commands.connect(handle.pid).kill()
    raises(CommandExitException, handle.wait)
    assert not sandbox.commands.kill(handle.pid)


with Sandbox.create(timeout=600, metadata={"made by": "a&b"}, envs={"A": "a"}) as sandbox:
    files(sandbox)
    sandbox.files.make_dir("sub")
    commands(sandbox)
    sandbox.set_timeout(60)
    assert sandbox.get_info().sandbox_id == sandbox.sandbox_id and sandbox.is_running()
    found = Sandbox.list(SandboxQuery(metadata={"made by": "a&b"})).next_items()
    assert [info.sandbox_id for info in found] == [sandbox.sandbox_id], found
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.files.read("a.txt") == "hello"
assert not sandbox.is_running()
raises(NotFoundException, Sandbox.connect, sandbox.sandbox_id)
assert all(info.sandbox_id != sandbox.sandbox_id for info in Sandbox.list().next_items())
