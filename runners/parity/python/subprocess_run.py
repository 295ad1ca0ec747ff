# Commands, their output, codes and errors.
import subprocess
import sys

print(subprocess.run("echo out; echo err >&2; exit 3", shell=True, capture_output=True, text=True))
print(subprocess.run([sys.executable, "-c", "import sys; print(sys.argv, sys.flags.safe_path, len(sys.modules) < 60)"], capture_output=True, text=True).stdout)
subprocess.run(["false"], check=True)
