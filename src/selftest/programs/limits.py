# Reads the limits back, as far as they can be seen from inside.
import glob
import os
import resource


def expected(name):
    return int(os.environ[name])


def number(*patterns):
    """The first number in the first of these files that there is; None when there is none, infinity for `max`."""
    for pattern in patterns:
        for path in glob.glob(pattern):
            words = open(path).read().split()
            tried.append(path)
            return float("inf") if words[0] in ("max", "-1") else float(words[0])
    return None


def at_most(what, value, most):
    if value is not None and value > most:
        found.append(f"{what} is {value:.0f} and not {most:.0f}")


CGROUP = "/sys/fs/cgroup"
at_most("memory", number(f"{CGROUP}/memory.max", f"{CGROUP}/memory/memory.limit_in_bytes"), expected("MEMORY"))
at_most("memory with swap", number(f"{CGROUP}/memory/memory.memsw.limit_in_bytes"), expected("MEMORY"))
at_most("swap", number(f"{CGROUP}/memory.swap.max"), 0)
at_most("processes", number(f"{CGROUP}/pids.max", f"{CGROUP}/pids/pids.max"), expected("PIDS"))
cpu = number(f"{CGROUP}/cpu.max", f"{CGROUP}/cpu,cpuacct/cpu.cfs_quota_us", f"{CGROUP}/cpu/cpu.cfs_quota_us")
if cpu is not None:
    period = number(f"{CGROUP}/cpu,cpuacct/cpu.cfs_period_us", f"{CGROUP}/cpu/cpu.cfs_period_us")
    period = period or float(open(f"{CGROUP}/cpu.max").read().split()[1])
    at_most("processor in billionths", cpu / period * 1e9, expected("NANO_CPUS") + 1e7)
for name, limit, most in (
    ("open files", resource.RLIMIT_NOFILE, 1024),
    ("largest file", resource.RLIMIT_FSIZE, expected("FILE_SIZE")),
    ("core files", resource.RLIMIT_CORE, 0),
):
    tried.append(name)
    hard = resource.getrlimit(limit)[1]
    at_most(name, float("inf") if hard == resource.RLIM_INFINITY else hard, most)
