def double(x):
    return x * 2


def fail():
    raise ValueError("from the helper")


if __name__ == "__main__":
    print("helper runs as a program")
