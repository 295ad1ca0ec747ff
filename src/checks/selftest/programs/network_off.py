# Looks for any way out when the network is off. Reads the kernel's own tables, and sends nothing anywhere but to what it is
# told that it must not reach.
import os
import socket

# Where a network is closed by rules, it is there: these are what somebody would reach who is not kept from it.
MUST_NOT_REACH = os.environ.get("MUST_NOT_REACH", "").split()
# How long an answer may take.
PATIENCE = 0.5
# Where the kernel's tcp_info has the number of segments that have come.
SEGMENTS = slice(140, 144)


def lines(path):
    try:
        return open(path).read().splitlines()
    except OSError:
        return []


def looks_in_files_alone():
    hosts = [line.split("#")[0].split()[1:] for line in lines("/etc/nsswitch.conf") if line.startswith("hosts:")]
    return hosts == [["files"]]


def is_reached(address):
    """Whether something comes back from there: a connection, or a refusal which is not that of the rules."""
    host, port = address.rsplit(":", 1)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as dialled:
        dialled.settimeout(PATIENCE)
        try:
            dialled.connect((host.strip("[]"), int(port)))
            return True
        except (ConnectionRefusedError, ConnectionResetError):
            info = dialled.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SEGMENTS.stop)
            return len(info) < SEGMENTS.stop or any(info[SEGMENTS])
        except OSError:
            return False


ways_out = []
# The kernel makes some tunnel interfaces, down, in every new namespace.
for _, name in socket.if_nameindex():
    tried.append(name)
    flags = lines(f"/sys/class/net/{name}/flags")
    if name != "lo" and (not flags or int(flags[0], 16) & 1):
        ways_out.append(f"interface {name} is up")
tried += ["routes", "IPv6 routes", "abstract sockets"]
if len(lines("/proc/net/route")) > 1:
    ways_out.append("a route")
ways_out += ["an IPv6 route" for route in lines("/proc/net/ipv6_route") if route.split()[-1] != "lo"][:1]
if ways_out and MUST_NOT_REACH:
    tried += MUST_NOT_REACH
    found += [f"{address} is reached" for address in MUST_NOT_REACH if is_reached(address)]
    notes.append("sandboxes have the network of the engine, and nothing but its rules closes it: docs/kubernetes.md")
else:
    found += ways_out
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
