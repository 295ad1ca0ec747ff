# The collector is on, with its usual thresholds, and finds cycles.
import gc


class Node:
    def __del__(self):
        print("collected")


node = Node()
node.me = node
del node
gc.collect()
print(gc.isenabled(), gc.get_threshold(), gc.garbage)
