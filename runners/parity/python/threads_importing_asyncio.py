# A thread that is the first to import asyncio.
import threading


def work():
    import asyncio

    print(asyncio.run(asyncio.sleep(0, "slept")))


thread = threading.Thread(target=work)
thread.start()
thread.join()
