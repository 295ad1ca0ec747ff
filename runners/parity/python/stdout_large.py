# Half a megabyte of output.
for number in range(20000):
    print(number, "x" * 20)
