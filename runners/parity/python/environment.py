# The environment is the image's and what the call adds.
import os

hidden = {"HOSTNAME"}
for name in sorted(os.environ.keys() - hidden):
    print(name, "=", os.environ[name])
