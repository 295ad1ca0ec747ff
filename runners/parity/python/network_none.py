# There is no network, and errors say so at once.
import socket
import urllib.request

try:
    socket.create_connection(("192.0.2.1", 80), timeout=2)
except OSError as error:
    print(type(error).__name__, error)
try:
    urllib.request.urlopen("http://192.0.2.1/", timeout=2)
except OSError as error:
    print(error)
