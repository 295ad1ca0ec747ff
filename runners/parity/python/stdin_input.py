# input() finds the end of the file.
try:
    input("name? ")
except EOFError as error:
    print("EOFError:", error)
