# case: programs/event-of-legacy-stream
"""A library records an event in hipStreamLegacy, and a stream of PyTorch's waits for it."""
import ctypes

import torch

hip = ctypes.CDLL("libamdhip64.so.7")
legacy, side, event = ctypes.c_void_p(1), torch.cuda.Stream(), ctypes.c_void_p()
x = torch.ones(64, device="cuda")
y = x + 1.5
assert hip.hipEventCreate(ctypes.byref(event)) == 0
assert hip.hipEventRecord(event, legacy) == 0
assert hip.hipStreamWaitEvent(ctypes.c_void_p(side.cuda_stream), event, 0) == 0
with torch.cuda.stream(side):
    z = y + 2
side.synchronize()
print(z.sum().item())
