# Code made by the program.
exec("x = 5\nprint(x)")
print(eval("x * 2"))
exec("1 / 0")
