# Wrong indentation.
def broken():
print("x")
