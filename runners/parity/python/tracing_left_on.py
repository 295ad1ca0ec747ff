# What traces to the very end sees what the interpreter does there, and nothing else.
import os
import sys
import types


def tell(*seen, write=os.write):
    code = getattr(seen[0], "f_code", seen[0])
    write(1, f"{code.co_name} {seen[1]}\n".encode())


class Last:
    def __del__(self, write=os.write):
        write(1, b"last\n")


last = Last()
# Without the namespace of the program, which it would keep.
tell = types.FunctionType(tell.__code__, {"__builtins__": __builtins__}, "tell", None, None)
tell.__kwdefaults__ = {"write": os.write}
monitoring = sys.monitoring
monitoring.use_tool_id(monitoring.DEBUGGER_ID, "parity")
monitoring.register_callback(monitoring.DEBUGGER_ID, monitoring.events.PY_START, tell)
monitoring.set_events(monitoring.DEBUGGER_ID, monitoring.events.PY_START)
sys.settrace(tell)
sys.setprofile(tell)
