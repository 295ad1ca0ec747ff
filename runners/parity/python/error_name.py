# A name that is not defined, with a suggestion.
lenght = 3
print(length)
