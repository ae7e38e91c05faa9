"""A vector sum, compared with NumPy's."""

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
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


must(hip.hipInit(0))
triton.runtime.driver.set_active(HIPDriver())

for n in 1, 1024, 10000:
    x = numpy.arange(1, n + 1, dtype="float32")
    y = numpy.arange(n, dtype="float32") % 17
    before = numpy.full(n + 64, -1, "float32")
    out = Array(before)
    rocrepro.phase("launch-%d" % n)
    add[(triton.cdiv(n, 1024),)](Array(x), Array(y), out, n, BLOCK=1024)
    right = before.copy()
    right[:n] = x + y
    # What lies behind the end is nobody's.
    rocrepro.equal("sum-%d" % n, out.get(), right, before=before)
rocrepro.done()
