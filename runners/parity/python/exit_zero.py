# The simplest program.
print("hello")
