# A trace function sees the program only.
import sys

events = []


def trace(frame, event, argument):
    events.append((event, frame.f_code.co_name))
    return trace


def traced():
    return 1 + 1


sys.settrace(trace)
traced()
sys.settrace(None)
print(events)
