# Dials the addresses in TARGETS, on all of which somebody of the selftest's listens.
import os
import socket

for target in os.environ["TARGETS"].split():
    host, port = target.split("|")
    try:
        with socket.create_connection((host, int(port)), 2) as connection:
            print("reached", host, connection.recv(64).decode())
    except OSError:
        print("shut", host)
print("done")
