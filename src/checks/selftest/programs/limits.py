# Reads the limits back. Of those that cannot be seen from here, as in a kernel of its own, the engine says in LIMITED
# whether it sets them: asked for one that it has not, it makes the container without.
import glob
import os
import resource

CGROUP = "/sys/fs/cgroup"
LIMITED = os.environ["LIMITED"].split()


def expected(name):
    return int(os.environ[name])


def number(*paths):
    """The first number in the first of these files that there is; None when there is none, infinity for `max`."""
    for path in filter(os.path.exists, paths):
        tried.append(path)
        word = open(path).read().split()[0]
        return float("inf") if word in ("max", "-1") else float(word)
    return None


def at_most(what, value, most):
    if value is None and what not in LIMITED:
        found.append(f"no limit on {what} is to be seen")
    elif value is not None and value > most:
        found.append(f"{what} is {value:.0f} and not {most:.0f}")


def swap_total():
    return next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("SwapTotal:"))


if not os.path.exists(f"{CGROUP}/cgroup.controllers") and os.path.exists(f"{CGROUP}/memory"):
    notes.append(
        "control groups of version 1 do not count what sockets hold, which is therefore up to 128 MiB more for each "
        "sandbox: version 2 counts most of it"
    )
at_most("memory", number(f"{CGROUP}/memory.max", f"{CGROUP}/memory/memory.limit_in_bytes"), expected("MEMORY"))
swap = number(f"{CGROUP}/memory.swap.max")
if swap is None:
    # The older kind counts both together.
    both = number(f"{CGROUP}/memory/memory.memsw.limit_in_bytes")
    swap = both if both is None else both - expected("MEMORY")
if swap is not None or swap_total():
    at_most("swap", swap, 0)
# The older kind of control groups does not count as memory what connections hold.
for name in ("tcp_rmem", "tcp_wmem"):
    path = f"/proc/sys/net/ipv4/{name}"
    if os.path.exists(path):
        tried.append(name)
        buffer = float(open(path).read().split()[2])
        if "buffers" in LIMITED:
            at_most("a connection's buffer", buffer, 64 << 10)
        elif buffer > 64 << 10:
            notes.append(f"the engine leaves {name} at {buffer:.0f} bytes, which only the limit on all sockets bounds")
processes = number(f"{CGROUP}/pids.max", f"{CGROUP}/pids/pids.max")
own, of_user = open("/proc/self/uid_map").read().split()[2] == "1", resource.getrlimit(resource.RLIMIT_NPROC)[1]
# In a user namespace with one user, the kernel counts the processes of this sandbox alone.
if own and of_user != resource.RLIM_INFINITY:
    processes = of_user if processes is None else min(processes, of_user)
at_most("processes", processes, expected("PIDS"))
quota = number(f"{CGROUP}/cpu.max", f"{CGROUP}/cpu,cpuacct/cpu.cfs_quota_us", f"{CGROUP}/cpu/cpu.cfs_quota_us")
if quota is not None:
    period = number(f"{CGROUP}/cpu,cpuacct/cpu.cfs_period_us", f"{CGROUP}/cpu/cpu.cfs_period_us")
    period = period or float(open(f"{CGROUP}/cpu.max").read().split()[1])
    quota *= 1e9 / period
if expected("NANO_CPUS"):
    at_most("processor", quota, expected("NANO_CPUS") + 1e7)
for name, limit, most in (
    ("open files", resource.RLIMIT_NOFILE, 1024),
    ("largest file", resource.RLIMIT_FSIZE, expected("FILE_SIZE")),
    ("core files", resource.RLIMIT_CORE, 1),
):
    tried.append(name)
    hard = resource.getrlimit(limit)[1]
    at_most(name, float("inf") if hard == resource.RLIM_INFINITY else hard, most)
