# Children inherit the same environment.
import subprocess

text = subprocess.run(["env"], capture_output=True, text=True).stdout
print("\n".join(sorted(line for line in text.splitlines() if not line.startswith("HOSTNAME="))))
