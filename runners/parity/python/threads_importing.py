# Threads that are the first to import a module, all of them at once.
import os
import sys
import threading

FIRST = ["statistics", "csv", "tempfile", "dataclasses", "decimal"]


def race():
    """Whether all threads get the same modules, and whole ones."""
    seen, start = [], threading.Barrier(8)

    def work(number):
        start.wait()
        for name in FIRST[number % 5 :] + FIRST[: number % 5]:
            module = __import__(name)
            seen.append(module is sys.modules[name])
        import decimal

        seen.append(decimal.Decimal is sys.modules["statistics"].Decimal)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(seen) == 8 * (len(FIRST) + 1) and all(seen)


sys.setswitchinterval(1e-6)
results = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if race() else 1)
    results.append(os.waitpid(child, 0)[1])
print(results)
