# case: programs/refused-allocation
"""A cache in a memory pool asks for too much, falls back, and the model then needs a little memory."""
import ctypes

import torch

hip = ctypes.CDLL("libamdhip64.so.7")
free, total = torch.cuda.mem_get_info()
most = torch.empty(total // 3 * 2, dtype=torch.uint8, device="cuda")
stream, cache = torch.cuda.Stream(), ctypes.c_void_p()
handle = ctypes.c_void_p(stream.cuda_stream)
hip.hipMallocAsync(ctypes.byref(cache), ctypes.c_size_t(4096), handle)
hip.hipFreeAsync(cache, handle)
stream.synchronize()
status = hip.hipMallocAsync(ctypes.byref(cache), ctypes.c_size_t(total // 2), handle)
hip.hipGetLastError()
print("the cache is refused by", status, "and the model goes on without it")
activations = torch.ones(1024, device="cuda")
print(activations.sum().item())
