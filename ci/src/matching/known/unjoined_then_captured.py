# case: capture/unjoined-fork
"""An extension captures PyTorch's work in two streams without a join, and then once more with the join."""
import ctypes

import torch

hip = ctypes.CDLL("libamdhip64.so.7")
x = torch.ones(4096, device="cuda")
y, z = x + 1, x * 2
stream, side = torch.cuda.Stream(), torch.cuda.Stream()
handle = ctypes.c_void_p(stream.cuda_stream)
torch.cuda.synchronize()


def capture(join):
    graph = ctypes.c_void_p()
    status = hip.hipStreamBeginCapture(handle, 2)
    assert status == 0, "hipStreamBeginCapture returned %d" % status
    with torch.cuda.stream(stream):
        torch.add(x, 1, out=y)
        side.wait_stream(stream)
        with torch.cuda.stream(side):
            torch.mul(x, 2, out=z)
        if join:
            stream.wait_stream(side)
    return hip.hipStreamEndCapture(handle, ctypes.byref(graph)), graph


print("without the join:", capture(join=False)[0])
hip.hipGetLastError()
status, graph = capture(join=True)
assert status == 0, "with the join: %d" % status
executable = ctypes.c_void_p()
assert hip.hipGraphInstantiate(ctypes.byref(executable), graph, None, None, ctypes.c_size_t(0)) == 0
hip.hipGraphLaunch(executable, handle)
stream.synchronize()
print(z.sum().item())
