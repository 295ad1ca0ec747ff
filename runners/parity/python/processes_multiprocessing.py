# A pool of each kind.
import multiprocessing


def square(x):
    return x * x


if __name__ == "__main__":
    for method in multiprocessing.get_all_start_methods():
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(square, range(6)))
    print(multiprocessing.get_start_method())
