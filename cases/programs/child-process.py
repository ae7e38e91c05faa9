"""A child and then its parent copy bytes to the device and back."""

import ctypes
import multiprocessing
import os


def there_and_back(values):
    hip = ctypes.CDLL("libamdhip64.so")
    device, n = ctypes.c_void_p(), ctypes.c_size_t(len(values))
    back = ctypes.create_string_buffer(len(values))
    statuses = [
        hip.hipMalloc(ctypes.byref(device), n),
        hip.hipMemcpy(device, values, n, 1),
        hip.hipMemcpy(back, device, n, 2),
    ]
    return os.getpid(), statuses, back.raw


def answer(values, queue):
    queue.put(there_and_back(values))


if __name__ == "__main__":
    # A child that is spawned imports this file, and has nothing to say.
    import rocrepro

    right = bytes(i % 255 + 1 for i in range(3000))
    context = multiprocessing.get_context(rocrepro.parameter("start"))
    rocrepro.phase("child")
    queue = context.SimpleQueue()
    child = context.Process(target=answer, args=(right, queue))
    child.start()
    pid, statuses, got = queue.get()
    child.join()
    rocrepro.must(max(statuses))
    rocrepro.equal("child", got, right)
    rocrepro.phase("parent")
    own, statuses, got = there_and_back(right)
    rocrepro.must(max(statuses))
    assert own != pid
    rocrepro.equal("parent", got, right)
    rocrepro.done()
