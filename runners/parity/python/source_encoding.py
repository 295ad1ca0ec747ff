# A declared encoding, CRLF line ends and a null-free source are the interpreter's business.
# -*- coding: latin-1 -*-
print("é".encode("utf-8"))
