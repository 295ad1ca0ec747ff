"""The Python SDK of E2B and smolagents, which run cells. As for sandbox.py, all settings are in the environment."""

from e2b_code_interpreter import NotFoundException, Sandbox
from smolagents import FinalAnswerTool
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import E2BExecutor


def cells(sandbox):
    assert sandbox.run_code("x = 1").text is None
    assert sandbox.run_code("x += 1; x").text == "2"
    printed = []
    failed = sandbox.run_code("print('hi'); 1/0", on_stdout=lambda message: printed.append(message.line))
    assert (failed.error.name, failed.error.value) == ("ZeroDivisionError", "division by zero"), failed.error
    assert failed.logs.stdout == ["hi\n"] == printed, failed.logs
    figure = sandbox.run_code("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()").results
    assert any(result.png for result in figure), figure
    table = sandbox.run_code("import pandas; pandas.DataFrame({'a': [1]})").results[0]
    assert table.html and table.is_main_result, table
    assert sandbox.run_code("import os; os.environ['A']", envs={"A": "a"}).text == "'a'"
    assert sandbox.run_code("const y: number = 6 * 7; y", language="ts").text == "42"
    assert sandbox.run_code("echo out", language="bash").logs.stdout == ["out\n"]
    sandbox.files.write("a.txt", "hello")
    assert sandbox.run_code("open('/home/user/a.txt').read()").text == "'hello'"


def contexts(sandbox):
    sandbox.run_code("x = 1")
    [usual] = sandbox.list_code_contexts()
    context = sandbox.create_code_context()
    assert sandbox.run_code("'x' in globals()", context=context).text == "False"
    assert sandbox.run_code("x").text == "1"
    sandbox.run_code("y = 5", context=context)
    assert sandbox.run_code("y", context=context).text == "5"
    assert [each.id for each in sandbox.list_code_contexts()] == [usual.id, context.id]
    sandbox.restart_code_context(context)
    assert sandbox.run_code("'y' in globals()", context=context).text == "False"
    sandbox.remove_code_context(context)
    try:
        sandbox.run_code("1", context=context)
    except NotFoundException:
        return
    raise AssertionError("a context that was removed still runs cells")


def agent():
    executor = E2BExecutor([], AgentLogger(level=LogLevel.ERROR))
    try:
        assert executor("1+1").output == 2 or executor("1+1").output == "2"
        executor.send_tools({"final_answer": FinalAnswerTool()})
        answer = executor("final_answer(42)")
        assert answer.is_final_answer and answer.output == 42, answer
    finally:
        executor.cleanup()


for check in cells, contexts:
    with Sandbox.create() as sandbox:
        check(sandbox)
agent()
