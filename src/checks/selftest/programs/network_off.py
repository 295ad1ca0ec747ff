# Looks for any way out when the network is off. Reads the kernel's own tables and sends nothing anywhere.
import socket


def lines(path):
    try:
        return open(path).read().splitlines()
    except OSError:
        return []


def looks_in_files_alone():
    hosts = [line.split("#")[0].split()[1:] for line in lines("/etc/nsswitch.conf") if line.startswith("hosts:")]
    return hosts == [["files"]]


# The kernel makes some tunnel interfaces, down, in every new namespace.
for _, name in socket.if_nameindex():
    tried.append(name)
    flags = lines(f"/sys/class/net/{name}/flags")
    if name != "lo" and (not flags or int(flags[0], 16) & 1):
        found.append(f"interface {name} is up")
tried += ["routes", "IPv6 routes", "abstract sockets"]
if len(lines("/proc/net/route")) > 1:
    found.append("a route")
found += ["an IPv6 route" for route in lines("/proc/net/ipv6_route") if route.split()[-1] != "lo"][:1]
if any(" @" in line for line in lines("/proc/net/unix")):
    found.append("a foreign abstract socket")
for kind, arguments in (("raw", (socket.AF_INET, socket.SOCK_RAW, 1)), ("packet", (17, socket.SOCK_RAW, 0))):
    tried.append(kind)
    try:
        socket.socket(*arguments).close()
        found.append(f"a {kind} socket")
    except OSError:
        pass
tried.append("a name")
try:
    socket.getaddrinfo("name.invalid", 80)
    found.append("a name is looked up")
except socket.gaierror as error:
    # There is no such name, but only a resolver can know, unless the image asks none.
    if error.errno == socket.EAI_NONAME and not looks_in_files_alone():
        found.append("a resolver answers")
except OSError:
    # A system call on the way to a resolver failed.
    pass
