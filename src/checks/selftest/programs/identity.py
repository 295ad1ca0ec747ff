# Who a program is: nobody special, without a way to become someone else.
import ctypes
import errno
import os
import re
import stat
import subprocess

# A rootless engine maps root to its own user, and every other user to one that shares no files with the server.
ROOTLESS = os.environ["ROOTLESS"] == "1"
PR_GET_NO_NEW_PRIVS = 39
status = open("/proc/self/status").read()


for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    # Not every kernel tells all of them.
    field = re.search(rf"^{name}:\s*(\S+)", status, re.MULTILINE)
    if field:
        tried.append(name)
        if int(field.group(1), 16):
            found.append(f"{name} is {field.group(1)}")
tried.append("no new privileges")
if ctypes.CDLL(None).prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
    found.append("may gain privileges")
if ROOTLESS:
    for ids in ("uid", "gid"):
        tried.append(f"{ids} map")
        # Its lines are: first id inside, first id outside, how many.
        if any(line.split()[:2] == ["0", "0"] for line in open(f"/proc/self/{ids}_map")):
            found.append(f"{ids} 0 is the host's own")
else:
    tried.append("uid")
    if 0 in os.getresuid() + os.getresgid():
        found.append("is root")
    # Its own group is the server's, which for a service is one of the system's; engines list it among the others too.
    others = set(os.getgroups()) - {os.getgid() or None}
    found += [f"is in group {group}" for group in sorted(others) if group < 1000]
    for change in (lambda: os.setuid(0), lambda: os.setgid(0)):
        tried.append("change")
        try:
            change()
            found.append("became root")
        except OSError as error:
            # There is no root in a user namespace that has none.
            if error.errno not in (errno.EPERM, errno.EINVAL):
                raise
tried.append("setgroups")
try:
    os.setgroups([0, 1])
    found.append("chose its groups")
except PermissionError:
    pass
# A setuid program of the image keeps the user of its caller.
for path in ("/bin/mount", "/usr/bin/passwd", "/bin/su", "/usr/bin/newgrp"):
    if os.path.exists(path) and os.stat(path).st_mode & stat.S_ISUID:
        tried.append(path)
        process = subprocess.Popen([path, "--help"], stdin=-1, stdout=-1, stderr=-1)
        try:
            uids = re.search(r"^Uid:\s*(.*)", open(f"/proc/{process.pid}/status").read(), re.MULTILINE)
            if not ROOTLESS and uids and "0" in uids.group(1).split():
                found.append(f"{path} runs as root")
        except OSError:
            pass
        process.communicate()
