# python, pip and the module path in a child.
import subprocess

print(subprocess.run(["python", "-c", "import numpy, helper; print(helper.double(2), numpy.__name__)"], capture_output=True, text=True))
