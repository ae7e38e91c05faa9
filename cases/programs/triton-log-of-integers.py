"""Rows of bfloat16 times the logarithm of whole numbers, compared with NumPy's in twice the precision."""

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
def scaled(x, position, out, stride, n, BLOCK: tl.constexpr, LOG: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + i, mask=i < n, other=0).to(tl.float32)
    factor = tl.load(position + row).to(tl.float32)
    if LOG:
        factor = tl.log(factor)
    tl.store(out + row * n + i, value * factor, mask=i < n)


rows, n, stride = 33, 100, 128
log = rocrepro.parameter("log") == "yes"
# The upper half of a float32 is a bfloat16; what lies between the rows is NaN.
numbers = numpy.random.default_rng(5).uniform(-3, 3, (rows, stride)).astype(numpy.float32)
numbers[:, n:] = numpy.nan
upper = (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16)
positions = numpy.arange(1, rows + 1, dtype=numpy.int64) ** 3
before = numpy.full((rows, n), 7, numpy.float32)
x, position, out = Array(upper), Array(positions), Array(before)
x.dtype = "bfloat16"

rocrepro.phase("launch")
triton.runtime.driver.set_active(HIPDriver())
scaled[(rows,)](x, position, out, stride, n, BLOCK=128, LOG=log)
must(hip.hipDeviceSynchronize())
value = (upper.astype(numpy.uint32) << 16).view(numpy.float32)[:, :n].astype(numpy.float64)
factor = positions.astype(numpy.float64)
right = value * (numpy.log(factor) if log else factor)[:, None]
rocrepro.close("rows", out.get(), right, relative=1e-5, absolute=1e-6, before=before)
rocrepro.done()
