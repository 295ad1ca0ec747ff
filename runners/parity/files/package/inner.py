def deep():
    return 42
