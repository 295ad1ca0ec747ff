# Finalisers of globals, of a module's objects and of weakref.finalize.
import weakref

import helper


class Thing:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("gone:", self.name)


class Target:
    pass


target = Target()
weakref.finalize(target, print, "finalize ran")
one = Thing("global")
helper.kept = Thing("in another module")
print("end of main")
