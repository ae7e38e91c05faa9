# case: capture/pool-allocation-in-null-stream
"""An extension that takes its workspace by hipMallocAsync from the default stream is called in a capture."""
import ctypes

import torch

hip = ctypes.CDLL("libamdhip64.so.7")
x = torch.ones(512, device="cuda")
blocking = ctypes.c_void_p()
assert hip.hipStreamCreate(ctypes.byref(blocking)) == 0
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=torch.cuda.ExternalStream(blocking.value)):
    y = x * 2
    workspace = ctypes.c_void_p()
    status = hip.hipMallocAsync(ctypes.byref(workspace), ctypes.c_size_t(65536), None)
    print("hipMallocAsync", status)
graph.replay()
print(y.sum().item())
