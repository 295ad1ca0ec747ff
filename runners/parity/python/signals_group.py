# A signal to the whole process group reaches the program's own children only.
import os
import signal
import subprocess

child = subprocess.Popen(["sleep", "30"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.killpg(0, signal.SIGTERM)
print(child.wait())
