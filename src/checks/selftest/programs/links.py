# Plants names that lead to another conversation and out of the workspace, wait for a writer, or are no files.
import os
import socket

# What a program cannot know: the other conversation's directory beside its own.
other = os.environ["OTHER"]
planted = []


def plant(name, make):
    try:
        make(f"/data/{name}")
        planted.append(name)
    except OSError:
        pass


os.makedirs("/data/sub")
for name, target in {
    "relative.txt": f"../{other}/canary.txt",
    "chained.txt": "relative.txt",
    "self.txt": "self.txt",
    "passwd.txt": "/etc/passwd",
    "environ.txt": "/proc/self/environ",
    "zero.bin": "/dev/zero",
    "engine.txt": "/var/run/docker.sock",
}.items():
    plant(name, lambda path: os.symlink(target, path))
for name, target in {"folder": f"../{other}", "up": "..", "root": "/", "sub/up": "../.."}.items():
    plant(name, lambda path: os.symlink(target, path))
    planted[-1:] = [f"{name}/canary.txt", f"{name}/{other}/canary.txt", f"{name}/etc/passwd"]
plant("pipe.txt", os.mkfifo)
plant("socket.txt", lambda path: socket.socket(socket.AF_UNIX).bind(path))
plant("device.bin", lambda path: os.mknod(path, 0o20600, os.makedev(1, 5)))
plant("hard.txt", lambda path: os.link("/etc/passwd", path))
with open("/data/real.txt", "w") as file:
    file.write("real")
print("\n".join(planted))
