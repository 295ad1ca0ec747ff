# Tools of sys.monitoring, as a coverage program uses them.
import sys

seen = []
monitoring = sys.monitoring
monitoring.use_tool_id(monitoring.COVERAGE_ID, "parity")
monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.PY_START, lambda code, offset: seen.append(code.co_name))
monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.PY_START)
(lambda: None)()
monitoring.set_events(monitoring.COVERAGE_ID, 0)
monitoring.free_tool_id(monitoring.COVERAGE_ID)
print(seen)
