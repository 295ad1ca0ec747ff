# Names and strings beyond ASCII in the source itself.
größe = "naïve café"
print(größe, größe.encode(), len("👨‍👩‍👧"))
