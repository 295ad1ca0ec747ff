# Dials the addresses in TARGETS, on all of which somebody of the selftest's listens.
import os
import socket


def gateway():
    with open("/proc/net/route") as routes:
        for route in routes:
            _, destination, address = route.split()[:3]
            if destination == "00000000":
                # The kernel writes the last byte first.
                return socket.inet_ntoa(bytes.fromhex(address)[::-1])
    raise LookupError("there is no gateway")


for target in os.environ["TARGETS"].split():
    host, port = target.split("|")
    host = gateway() if host == "gateway" else host
    try:
        with socket.create_connection((host, int(port)), 2) as connection:
            print("reached", host, connection.recv(64).decode())
    except OSError:
        print("shut", host)
print("done")
