# Changes reach children.
import os
import subprocess

os.environ["PARITY"] = "set"
print(subprocess.run(["sh", "-c", "echo $PARITY"], capture_output=True, text=True).stdout)
os.unsetenv("PARITY")
