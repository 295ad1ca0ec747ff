# The process may look at itself.
with open("/proc/self/mem", "rb") as memory:
    print("readable", memory.fileno() > 2)
print(len(open("/proc/self/environ").read()) > 10)
