# Queues and shared memory between processes.
import multiprocessing


def work(queue, value):
    with value.get_lock():
        value.value += 5
    queue.put("from the child")


if __name__ == "__main__":
    queue = multiprocessing.Queue()
    value = multiprocessing.Value("i", 1)
    process = multiprocessing.Process(target=work, args=(queue, value))
    process.start()
    print(queue.get(), process.join(), value.value, process.exitcode)
