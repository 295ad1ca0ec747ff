# A file that was never closed is complete afterwards.
file = open("/data/unclosed.txt", "w")
file.write("all of it " * 100)
print("written, not closed")
