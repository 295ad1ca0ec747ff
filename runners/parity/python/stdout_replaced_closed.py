# A stream in the place of standard output that cannot be flushed any more.
import sys


class Tee:
    def __init__(self, *streams):
        self.streams = streams

    def write(self, text):
        for stream in self.streams:
            stream.write(text)

    def flush(self):
        for stream in self.streams:
            stream.flush()


with open("/data/log.txt", "w") as file:
    sys.stdout = Tee(sys.__stdout__, file)
    print("seen twice")
