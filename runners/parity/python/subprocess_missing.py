# A command that does not exist.
import subprocess

subprocess.run(["no-such-command"])
