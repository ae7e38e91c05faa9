"""A vector sum by Triton on HIP, without PyTorch: arrays are what hipMalloc gives."""

import ctypes
import sys
import types

import numpy


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


def checked(status):
    assert status == 0, f"HIP returns {status}"


class Array:
    """What Triton takes for an array."""

    def __init__(self, values):
        self.values = numpy.ascontiguousarray(values)
        self.dtype = str(self.values.dtype)
        self.memory = ctypes.c_void_p()
        checked(hip.hipMalloc(ctypes.byref(self.memory), ctypes.c_size_t(self.values.nbytes)))
        self.copy(self.memory, self.pointer(), 1)

    def pointer(self):
        return self.values.ctypes.data_as(ctypes.c_void_p)

    def copy(self, to, source, kind):
        checked(hip.hipMemcpy(to, source, ctypes.c_size_t(self.values.nbytes), kind))

    def data_ptr(self):
        return self.memory.value

    def get(self):
        self.copy(self.pointer(), self.memory, 2)
        return self.values


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    row = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + tl.program_id(0) * n + i, row / tl.sum(row, axis=0), mask=i < n)


checked(hip.hipInit(0))
triton.runtime.driver.set_active(HIPDriver())
print("triton", triton.__version__, triton.runtime.driver.active.get_current_target())

n = 10_000
x = numpy.arange(n, dtype="float32")
out = Array(numpy.zeros(n, "float32"))
add[(triton.cdiv(n, 1024),)](Array(x), Array(x + 1), out, n, BLOCK=1024)
assert (out.get() == 2 * x + 1).all()
print("sum of", n, "elements: right")

x = numpy.random.RandomState(0).rand(20, 300).astype("float32")
out = Array(numpy.zeros_like(x))
softmax[(20,)](Array(x), out, 300, BLOCK=512)
e = numpy.exp(x - x.max(1, keepdims=True))
numpy.testing.assert_allclose(out.get(), e / e.sum(1, keepdims=True), rtol=1e-5)
print("softmax of 20 x 300: right")
