# A warning from the compiler.
print("\d")
x = 1
if x is 1:
    print("same")
