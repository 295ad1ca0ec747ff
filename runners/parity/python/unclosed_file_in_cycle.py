# The same in a reference cycle that only the collector finds.
class Holder:
    def __init__(self):
        self.me = self
        self.file = open("/data/cycle.txt", "w")


Holder().file.write("in a cycle")
