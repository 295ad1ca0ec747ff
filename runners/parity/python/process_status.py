# What the kernel says about the process.
import re

status = open("/proc/self/status").read()
for name in ("Name", "Threads", "NoNewPrivs", "CapEff", "CapBnd", "Seccomp", "SigBlk", "SigIgn", "SigCgt"):
    print(re.search(rf"^{name}:\s*(.*)$", status, re.MULTILINE).group(0))
