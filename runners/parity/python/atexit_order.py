# Exit functions run last in, first out, after the main program and before globals go.
import atexit


class Global:
    def __del__(self):
        print("global gone")


keep = Global()
for number in range(3):
    atexit.register(print, "exit function", number)
print("main ends")
