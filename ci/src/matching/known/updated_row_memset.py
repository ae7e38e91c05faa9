# case: programs/update-memset-of-rows
"""An extension captures a memset of rows of a tensor, and updates the executable graph with another value."""
import ctypes

import torch

hip = ctypes.CDLL("libamdhip64.so.7")
rows = torch.ones(8, 512, dtype=torch.uint8, device="cuda")
stream = torch.cuda.Stream()
handle = ctypes.c_void_p(stream.cuda_stream)
graphs = []
for value in 7, 8:
    graph = ctypes.c_void_p()
    assert hip.hipStreamBeginCapture(handle, 0) == 0
    size = [ctypes.c_size_t(n) for n in (512, 256, 8)]
    assert hip.hipMemset2DAsync(ctypes.c_void_p(rows.data_ptr()), size[0], value, size[1], size[2], handle) == 0
    assert hip.hipStreamEndCapture(handle, ctypes.byref(graph)) == 0
    graphs.append(graph)
executable, node, result = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
assert hip.hipGraphInstantiate(ctypes.byref(executable), graphs[0], None, None, ctypes.c_size_t(0)) == 0
status = hip.hipGraphExecUpdate(executable, graphs[1], ctypes.byref(node), ctypes.byref(result))
assert status == 0, "hipGraphExecUpdate returned %d" % status
hip.hipGraphLaunch(executable, handle)
stream.synchronize()
assert int(rows[:, :256].sum()) == 8 * 8 * 256
