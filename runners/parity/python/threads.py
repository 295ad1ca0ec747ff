# Threads that outlive the main program.
import threading

over = threading.Event()


def work(number, previous):
    previous.join()
    over.wait()
    print("thread", number)


thread = threading.Thread(target=over.wait)
thread.start()
for number in range(3):
    thread = threading.Thread(target=work, args=(number, thread))
    thread.start()
print("main", threading.main_thread() is threading.current_thread(), threading.current_thread().name)
over.set()
