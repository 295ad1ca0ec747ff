# An error in a thread is printed and does not change the exit code.
import threading


def work():
    raise ValueError("in a thread")


thread = threading.Thread(target=work, name="worker")
thread.start()
thread.join()
print("main is fine")
