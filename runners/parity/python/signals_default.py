# Dispositions and handlers at the start.
import signal

for number in sorted(signal.valid_signals()):
    print(int(number), signal.getsignal(number) if number != signal.SIGINT else "python's own")
print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
