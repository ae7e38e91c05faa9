# case: programs/event-destroyed-under-lock
"""An interprocess event is destroyed under a lock that a host function of the same stream waits for."""
import ctypes
import threading

import torch

hip = ctypes.CDLL("libamdhip64.so.7")
lock, begun = threading.Lock(), threading.Event()


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def with_lock(_):
    begun.set()
    with lock:
        print("the host function has the lock", flush=True)


stream = torch.cuda.Stream()
x = torch.zeros(1024, device="cuda")
event = torch.cuda.Event(interprocess=True)
event.record(stream)
stream.synchronize()
with lock:
    hip.hipLaunchHostFunc(ctypes.c_void_p(stream.cuda_stream), with_lock, None)
    begun.wait()
    del event
stream.synchronize()
print("done")
