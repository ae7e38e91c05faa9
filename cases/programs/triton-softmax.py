"""A softmax of rows, compared with NumPy's in twice the precision."""

import ctypes
import sys
import types

import numpy
import rocrepro


def stand_in_for_torch():
    """Triton asks torch for the current device and stream and for nothing else."""
    torch = types.ModuleType("torch")
    torch.Tensor = type("Tensor", (), {})
    torch.version = types.SimpleNamespace(hip="7.2", cuda=None)
    torch.cuda = types.SimpleNamespace(
        current_device=lambda: 0,
        set_device=lambda device: None,
        get_device_capability=lambda device=None: (9, 4),
        is_available=lambda: True,
    )
    torch._C = types.ModuleType("torch._C")
    torch._C._cuda_getCurrentRawStream = lambda device: 0
    sys.modules["torch"], sys.modules["torch._C"] = torch, torch._C


stand_in_for_torch()

import triton
import triton.language as tl
from triton.backends.amd.driver import HIPDriver

hip = ctypes.CDLL("libamdhip64.so")
must = rocrepro.must


class Array:
    """What Triton takes for an array."""

    def __init__(self, values):
        self.values = numpy.ascontiguousarray(values)
        self.dtype = str(self.values.dtype)
        self.memory = ctypes.c_void_p()
        self.size = ctypes.c_size_t(self.values.nbytes)
        must(hip.hipMalloc(ctypes.byref(self.memory), self.size))
        must(hip.hipMemcpy(self.memory, self.values.ctypes.data_as(ctypes.c_void_p), self.size, 1))

    def data_ptr(self):
        return self.memory.value

    def get(self):
        back = numpy.empty_like(self.values)
        must(hip.hipMemcpy(back.ctypes.data_as(ctypes.c_void_p), self.memory, self.size, 2))
        return back


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    row = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + tl.program_id(0) * n + i, row / tl.sum(row, axis=0), mask=i < n)


must(hip.hipInit(0))
triton.runtime.driver.set_active(HIPDriver())

x = numpy.random.RandomState(0).rand(20, 300).astype("float32") * 8
out = Array(numpy.zeros_like(x))
rocrepro.phase("launch")
softmax[(20,)](Array(x), out, 300, BLOCK=512)
e = numpy.exp(x.astype("float64") - x.max(1, keepdims=True))
rocrepro.close("softmax", out.get(), e / e.sum(1, keepdims=True), relative=1e-5)
rocrepro.done()
