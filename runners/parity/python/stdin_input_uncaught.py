# input() without a handler.
name = input("name? ")
