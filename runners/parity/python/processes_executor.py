# A process pool and an error that comes back from it.
from concurrent.futures import ProcessPoolExecutor


def invert(x):
    return 1 / x


if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        print(list(pool.map(invert, [1, 2, 4])))
        try:
            pool.submit(invert, 0).result()
        except ZeroDivisionError as error:
            print(type(error.__cause__).__name__, error)
