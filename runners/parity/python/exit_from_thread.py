# SystemExit in a thread ends that thread only.
import threading

thread = threading.Thread(target=lambda: exit(9))
thread.start()
thread.join()
print("main goes on")
