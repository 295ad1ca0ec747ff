# Reads what an engine masks because it tells too much. Opens for writing what changes the host's kernel or the
# container's own limits, and devices of the host; where there is Landlock, also what any process can otherwise write
# about itself.
import ctypes
import glob
import os

LEVERS = """
/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/vm/overcommit_memory
/proc/sys/fs/binfmt_misc/register /proc/sysrq-trigger /proc/irq/0/smp_affinity
/sys/kernel/uevent_helper /sys/power/state /sys/firmware
/dev/kmsg /dev/mem /dev/kvm /dev/fuse /dev/net/tun /dev/loop-control /dev/vda /dev/sda /dev/nvme0n1 /dev/dri/card0
/dev/vsock /dev/vhost-vsock /dev/vhost-net
""".split()
OWN = "attr/current attr/exec mem oom_score_adj comm coredump_filter timerslack_ns clear_refs".split()
MASKED = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/sys/firmware", "/sys/kernel/debug"]
GROUPS = "release_agent memory.limit_in_bytes memory.max pids.max cpu.max cpu.cfs_quota_us devices.allow cgroup.procs"
levers = LEVERS + [path for name in GROUPS.split() for path in glob.glob(f"/sys/fs/cgroup/**/{name}", recursive=True)]
for path in MASKED:
    tried.append(path)
    try:
        shown = os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(64).strip()
    except OSError:
        continue
    if shown:
        found.append(f"{path} can be read")
LANDLOCK_CREATE_RULESET, VERSION = 444, 1
if ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, VERSION) >= 2:
    levers += [f"/proc/self/{name}" for name in OWN]
for path in levers:
    tried.append(path)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        found.append(f"{path} opens for writing")
    except OSError:
        pass
