"""The largest and the smallest of numbers of both signs, by atomic operations of all lanes at one address."""

import ctypes
import sys
import types

import numpy
import rocrepro

# Triton asks torch for the current device and stream and for nothing else.
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

import triton
import triton.language as tl
from triton.backends.amd.driver import HIPDriver

hip = ctypes.CDLL("libamdhip64.so")


class Array:
    """What Triton takes for an array."""

    def __init__(self, values):
        self.values = numpy.ascontiguousarray(values)
        self.dtype = str(self.values.dtype)
        self.memory = ctypes.c_void_p()
        self.size = ctypes.c_size_t(self.values.nbytes)
        rocrepro.must(hip.hipMalloc(ctypes.byref(self.memory), self.size))
        rocrepro.must(hip.hipMemcpy(self.memory, self.values.ctypes.data_as(ctypes.c_void_p), self.size, 1))

    def data_ptr(self):
        return self.memory.value

    def get(self):
        back = numpy.empty_like(self.values)
        rocrepro.must(hip.hipMemcpy(back.ctypes.data_as(ctypes.c_void_p), self.memory, self.size, 2))
        return back


@triton.jit
def largest(out, values, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_max(out + i * 0, tl.load(values + i))


@triton.jit
def smallest(out, values, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_min(out + i * 0, tl.load(values + i))


rocrepro.must(hip.hipInit(0))
triton.runtime.driver.set_active(HIPDriver())
values = Array(numpy.tile(numpy.array([-3, -1, 2, 5], "int32"), 16))
for name, kernel, start, right in [("max", largest, -100, 5), ("min", smallest, 100, -3)]:
    rocrepro.phase(name)
    out = Array(numpy.array([start], "int32"))
    kernel[(1,)](out, values, N=64)
    rocrepro.equal(name, out.get(), [right], before=[start])
rocrepro.done()
