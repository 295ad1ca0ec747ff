# A child that is still there when the program ends.
import subprocess

subprocess.Popen(["sleep", "60"])
print("not waiting")
