# case: programs/event-of-legacy-stream
"""A prefetcher records PyTorch's own event in hipStreamLegacy; the stream of the model waits for it."""
import ctypes

import torch

hip = ctypes.CDLL("libamdhip64.so.7")
compute, ready = torch.cuda.Stream(), torch.cuda.Event()
batches = [torch.rand(32, 32).pin_memory() for _ in range(3)]
total = torch.zeros((), device="cuda")
ready.record()
for batch in batches:
    there = batch.to("cuda", non_blocking=True)
    assert hip.hipEventRecord(ctypes.c_void_p(ready.cuda_event), ctypes.c_void_p(1)) == 0
    compute.wait_event(ready)
    with torch.cuda.stream(compute):
        total += (there @ there).sum()
compute.synchronize()
print(total.item())
