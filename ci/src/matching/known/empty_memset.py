# case: capture/memset-of-nothing
"""An extension clears a workspace that happens to be empty, during a capture."""
import ctypes

import torch

hip = ctypes.CDLL("libamdhip64.so.7")
x, workspace = torch.ones(512, device="cuda"), torch.ones(512, device="cuda")


def scale(x, used):
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    status = hip.hipMemsetAsync(ctypes.c_void_p(workspace.data_ptr()), 0, ctypes.c_size_t(used), stream)
    if status:
        raise RuntimeError("hipMemsetAsync returned %d" % status)
    return x * 2 + workspace


scale(x, 0)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = scale(x, 0)
graph.replay()
print(y.sum().item())
