# Asks everything that it may not for the word that only the open host says.
import os
import socket

PORT = int(os.environ["PORT"])


def said(host):
    try:
        with socket.create_connection((host, PORT), 5) as connection:
            connection.settimeout(5)
            return connection.recv(64).decode() or "shut"
    except OSError:
        return "shut"


def exchanged(address):
    """What comes back for a datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.settimeout(1)
            asking.sendto(b"word?", (address, PORT))
            return asking.recv(64).decode()
        except OSError:
            return "shut"


print("open", said(os.environ["OPEN"]))
print("closed", said(os.environ["CLOSED"]))
print("unlisted", said("other.selftest.invalid"))
print("loopback", said("127.0.0.1"))
print("loopback6", said("::1"))
for address in os.environ["ADDRESSES"].split():
    if address != "gateway":
        print(address, said(address))
        print(address, exchanged(address))
print("done")
