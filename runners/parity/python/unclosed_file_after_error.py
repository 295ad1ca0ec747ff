# A file that is open when the program fails.
file = open("/data/failed.txt", "w")
file.write("before the error")
raise ValueError("stop")
