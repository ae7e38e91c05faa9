# case: capture/retry-after-invalidated-capture
"""An extension captures PyTorch's work; the first capture reads a value, the second one in the same stream does not."""
import ctypes

import torch

hip = ctypes.CDLL("libamdhip64.so.7")
x = torch.ones(1024, device="cuda")
y = x * 3
stream = torch.cuda.Stream()
handle = ctypes.c_void_p(stream.cuda_stream)
torch.cuda.synchronize()


def capture(read):
    graph = ctypes.c_void_p()
    with torch.cuda.stream(stream):
        assert hip.hipStreamBeginCapture(handle, 2) == 0
        torch.mul(x, 3, out=y)
        if read:
            stream.query()
        return hip.hipStreamEndCapture(handle, ctypes.byref(graph)), graph


try:
    print("the first capture gave", capture(read=True))
except RuntimeError as error:
    print("the first capture was refused:", str(error).splitlines()[0])
    print("ended with", hip.hipStreamEndCapture(handle, ctypes.byref(ctypes.c_void_p())))
hip.hipGetLastError()
status, graph = capture(read=False)
assert status == 0, "the second capture gave %d" % status
executable = ctypes.c_void_p()
status = hip.hipGraphInstantiate(ctypes.byref(executable), graph, None, None, ctypes.c_size_t(0))
assert status == 0, "hipGraphInstantiate returned %d" % status
hip.hipGraphLaunch(executable, handle)
stream.synchronize()
assert y.sum().item() == 3 * 1024
