# A handler of the program, an alarm and a wake-up.
import os
import signal
import time

signal.signal(signal.SIGUSR1, lambda number, frame: print("got", signal.Signals(number).name))
os.kill(os.getpid(), signal.SIGUSR1)
signal.signal(signal.SIGALRM, lambda number, frame: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(0.2)
