# A child that writes to the same streams, in order.
import subprocess

print("before")
subprocess.run(["echo", "from the child"])
print("after")
