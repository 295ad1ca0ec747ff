# Looks for what belongs to the server or the host: secrets in environments, the engine's socket, host directories,
# foreign descriptors, other containers' processes.
import glob
import os
import stat

NAMES = (b"MCP_API_TOKEN=", b"FILE_SECRET=", b"TUNNEL_TOKEN=", b"DOCKER_HOST=")
PATHS = """
/var/run/docker.sock /run/docker.sock /run/podman/podman.sock /run/containerd/containerd.sock /run/crio/crio.sock
/var/lib/docker /var/lib/containers /host /sandboxes /var/sandboxes /root/.docker /.env /data/.env /data/../.root-id
/var/run/secrets/kubernetes.io
""".split()
# What an engine mounts by itself, and what the server mounts.
MOUNTED = ("/", "/data", "/.sandbox-init", "/.sandbox-hatch", "/.sandbox-ca.pem", "/etc/resolv.conf", "/etc/hostname",
           "/etc/hosts", "/run/.containerenv", "/.sandbox-termination")
BELOW = ("/proc", "/sys", "/dev")
VIRTUAL = ("proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "overlay")

for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        text = open(path, "rb").read()
    except OSError:
        continue
    tried.append(path)
    found += [f"{name.decode()}… in {path}" for name in NAMES if name in text]
for path in PATHS:
    tried.append(path)
    if os.path.exists(path):
        found.append(path)
mounts = [line.partition(" - ") for line in open("/proc/self/mountinfo")]
# Which directory of which device is /data: it may have a second name.
data = [before.split()[2:4] for before, _, _ in mounts if before.split()[4] == "/data"]
for before, _, after in mounts:
    device, root, place = before.split()[2:5]
    tried.append(place)
    if place == "/mnt/data" and [device, root] in data:
        continue
    # Podman writes users and groups for each container.
    podmans = place in ("/etc/passwd", "/etc/group") and root.endswith(place.replace("/etc/", "/userdata/"))
    own = podmans or place in MOUNTED or any(place == below or place.startswith(below + "/") for below in BELOW)
    if not own and (root != "/" or after.split()[0] not in VIRTUAL):
        found.append(f"{place} is mounted from outside")
for descriptor in os.listdir("/proc/self/fd"):
    try:
        mode = os.stat(f"/proc/self/fd/{descriptor}").st_mode
        target = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        continue
    tried.append(f"descriptor {descriptor}")
    if int(descriptor) > 2 and (stat.S_ISSOCK(mode) or stat.S_ISBLK(mode) or stat.S_ISDIR(mode)):
        if not target.startswith("/proc/"):
            found.append(f"descriptor {descriptor} is {target}")
processes = [name for name in os.listdir("/proc") if name.isdigit()]
if len(processes) > 16:
    found.append(f"{len(processes)} processes, of other containers too")
