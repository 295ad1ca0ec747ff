"""Runs print(1) in an open session of llm-sandbox's bubblewrap back end for each line of input, and prints the ms."""

import sys
import time

from llm_sandbox import SandboxBackend, SandboxSession

with SandboxSession(backend=SandboxBackend.BUBBLEWRAP, lang="python", verbose=False) as session:
    print(flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        result = session.run("print(1)")
        took = time.perf_counter() - began
        assert (result.exit_code, result.stdout) == (0, "1\n"), result
        print(took * 1000, flush=True)
