# Strings of one program hash consistently.
print(hash("a") == hash("a"), len({"a", "b", "a"}), hash(10**20))
