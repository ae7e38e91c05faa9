# case: programs/kernel-node-parameters-copied
"""An extension replaces an argument of a captured kernel of PyTorch's in the list that HIP gave it."""
import ctypes

import torch


class Dim(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class Parameters(ctypes.Structure):
    _fields_ = [("block", Dim), ("extra", ctypes.c_void_p), ("func", ctypes.c_void_p), ("grid", Dim),
                ("arguments", ctypes.POINTER(ctypes.c_void_p)), ("shared", ctypes.c_uint)]


hip = ctypes.CDLL("libamdhip64.so.7")
x = torch.zeros(1024, device="cuda")
x.add_(1)
stream = torch.cuda.Stream()
handle, graph = ctypes.c_void_p(stream.cuda_stream), ctypes.c_void_p()
torch.cuda.synchronize()
with torch.cuda.stream(stream):
    assert hip.hipStreamBeginCapture(handle, 2) == 0
    x.add_(1)
    assert hip.hipStreamEndCapture(handle, ctypes.byref(graph)) == 0
node, count, parameters = ctypes.c_void_p(), ctypes.c_size_t(1), Parameters()
assert hip.hipGraphGetNodes(graph, ctypes.byref(node), ctypes.byref(count)) == 0
assert hip.hipGraphKernelNodeGetParams(node, ctypes.byref(parameters)) == 0
elements = ctypes.c_int(512)
parameters.arguments[0] = ctypes.addressof(elements)
assert hip.hipGraphKernelNodeSetParams(node, ctypes.byref(parameters)) == 0
executable = ctypes.c_void_p()
assert hip.hipGraphInstantiate(ctypes.byref(executable), graph, None, None, ctypes.c_size_t(0)) == 0
assert hip.hipGraphLaunch(executable, handle) == 0
stream.synchronize()
print(x.sum().item())
hip.hipGraphExecDestroy(executable)
hip.hipGraphDestroy(graph)
print("done")
