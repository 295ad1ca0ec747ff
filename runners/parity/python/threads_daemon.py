# A daemon thread does not keep the program.
import threading
import time

threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("main is done", threading.active_count())
