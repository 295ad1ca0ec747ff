# A thread pool that is never shut down.
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(4)
print(list(pool.map(lambda x: x * x, range(8))))
pool.submit(print, "late task")
