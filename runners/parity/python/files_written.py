# Where a program may write.
import os

for path in ("/data/ok.txt", "/tmp/ok.txt", "/ok.txt", "/opt/ok.txt", os.path.expanduser("~/home.txt")):
    try:
        with open(path, "w") as file:
            file.write("x")
        print(path, "written")
    except OSError as error:
        print(path, error.strerror)
