# Listens for another run, and says where, until the file `stop` is there.
import os
import socket
import threading
import time

listener = socket.create_server(("", int(os.environ["PORT"])))


def serve():
    while True:
        listener.accept()[0].sendall(os.environ["WORD"].encode())


threading.Thread(target=serve, daemon=True).start()
# The address that a datagram would be sent from; connecting sends nothing.
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.connect(("192.0.2.1", 9))
address = own.getsockname()[0]
with socket.create_connection((address, int(os.environ["PORT"])), 2) as connection:
    assert connection.recv(64)
with open("/data/.new", "w") as file:
    file.write(address)
os.rename("/data/.new", "/data/address")
while not os.path.exists("/data/stop"):
    time.sleep(0.05)
