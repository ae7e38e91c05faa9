"""Elementwise programs drawn at random, compiled by Triton and compared with NumPy bit by bit.

`count` programs are drawn by the seeds from `first` on: of numbers of 8, 16 and 32 bits, with and without a sign, and of
float16 and float32. Each step is an operation that NumPy and Triton define alike, so that there is one right result.
"""

import ctypes
import importlib.util
import pathlib
import random
import sys
import tempfile
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
from triton.backends.amd.driver import HIPDriver

hip = ctypes.CDLL("libamdhip64.so")
must = rocrepro.must

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
# Twice as often what has 16 bits: halves of registers are where compilers and devices go wrong.
TYPES = INTEGERS + ["float16", "float32", "int16", "uint16", "float16"]
LIMIT = 8  # Of floats: each result is cut to this, so that none is infinite and each is in range of a conversion.


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
        must(hip.hipFree(self.memory))
        return back


class Program:
    """One program: its lines for Triton, and the same lines for NumPy."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.block = self.random.choice([64, 128, 256, 512])
        self.warps = self.random.choice([1, 2, 4])
        self.types, self.triton, self.numpy = [], [], []
        self.inputs = [self.random.choice(TYPES) for _ in range(3)]
        for at, of in enumerate(self.inputs):
            self.define(of, f"tl.load(x{at} + i)", f"x{at}")
        for _ in range(self.random.randint(6, 16)):
            self.step()
        last = len(self.types) - 1
        self.outputs = sorted({last, last - 1, self.random.randrange(3, last + 1)})

    def define(self, of, triton, array):
        name = f"v{len(self.types)}"
        self.types.append(of)
        self.triton.append(f"{name} = {triton}")
        self.numpy.append(f"{name} = {array}")

    def both(self, of, text):
        self.define(of, text.replace("np.", "tl."), text)

    def value(self, of):
        """A value of that type: one that there is, or one that is converted."""
        there = [at for at, other in enumerate(self.types) if other == of]
        if there and self.random.random() < 0.7:
            return f"v{self.random.choice(there)}"
        at = self.random.randrange(len(self.types))
        return self.converted(f"v{at}", self.types[at], of)

    def converted(self, name, old, new):
        if old == new:
            return name
        if old in INTEGERS and new not in INTEGERS:
            # Few enough bits that nothing is rounded.
            name = f"({name} & {self.constant(old, 7)})"
        elif old not in INTEGERS:
            # Numbers below 0 have no type without a sign, so they get there by way of one that has.
            self.both("int32", f"{name}.to(np.int32)")
            name = f"v{len(self.types) - 1}"
            if new == "int32":
                return name
        if old not in INTEGERS and new not in INTEGERS:
            return self.converted(name, "int32", new)
        self.both(new, f"{name}.to(np.{new})")
        return f"v{len(self.types) - 1}"

    def constant(self, of, value=None):
        if value is None:
            value = self.random.choice([1, 2, 3, 5, 7, 15, 100, 127])
        return f"one({value}, np.{of})"

    def step(self):
        of = self.random.choice(TYPES)
        a, b = self.value(of), self.value(of)
        if of not in INTEGERS:
            kind = self.random.choice(["+", "-", "*", "minimum", "maximum", "where", "-0"])
            text = {"where": f"np.where({a} < {b}, {b}, {a})", "-0": f"-{a}"}.get(kind)
            if text is None:
                text = f"np.{kind}({a}, {b})" if kind.startswith("m") else f"{a} {kind} {b}"
            self.both(of, text)
            name = f"v{len(self.types) - 1}"
            low, high = self.constant(of, -LIMIT), self.constant(of, LIMIT)
            self.both(of, f"np.maximum(np.minimum({name}, {high}), {low})")
            return
        bits = int(of.lstrip("uint"))
        kind = self.random.choice(
            ["+", "-", "*", "&", "|", "^", "minimum", "maximum", "where", "shift", "~", "constant", "far"]
        )
        if kind in ("minimum", "maximum"):
            text = f"np.{kind}({a}, {b})"
        elif kind == "where":
            c, d = self.value(of), self.value(of)
            text = f"np.where({a} {self.random.choice(['<', '==', '>=', '!='])} {b}, {c}, {d})"
        elif kind == "shift":
            by = self.constant(of, self.random.randrange(bits))
            text = f"{a} {self.random.choice(['<<', '>>'])} {by}"
        elif kind == "far":
            text = f"{a} {self.random.choice(['<<', '>>'])} ({b} & {self.constant(of, bits - 1)})"
        elif kind == "~":
            text = f"~{a}"
        elif kind == "constant":
            text = f"{a} {self.random.choice('+-*&|^')} {self.constant(of)}"
        else:
            text = f"{a} {kind} {b}"
        self.both(of, text)

    def source(self, name):
        inputs = ", ".join(f"x{at}" for at in range(len(self.inputs)))
        outputs = ", ".join(f"o{at}" for at in self.outputs)
        lines = [f"@triton.jit\ndef {name}({inputs}, {outputs}, BLOCK: tl.constexpr):"]
        lines += ["i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)", *self.triton]
        lines += [f"tl.store(o{at} + i, v{at})" for at in self.outputs]
        return "\n    ".join(lines).replace("one(", "tl.full((), ").replace(".to(np.", ".to(tl.")

    def drawn(self, of, size):
        """Any bits of an integer, and floats within the limit that are exact in each type."""
        draw = numpy.random.RandomState(self.random.randrange(1 << 31))
        if of in INTEGERS:
            return draw.randint(0, 256, size * numpy.dtype(of).itemsize).astype("uint8").view(of)
        return (draw.randint(-LIMIT * 64, LIMIT * 64 + 1, size) / 64).astype(of)

    def check(self, kernel, seed):
        size = 2 * self.block
        inputs = [self.drawn(of, size) for of in self.inputs]
        outputs = [Array(numpy.zeros(size, self.types[at])) for at in self.outputs]
        arrays = [Array(values) for values in inputs]
        kernel[(2,)](
            *arrays, *outputs, BLOCK=self.block, num_warps=self.warps, enable_fp_fusion=False
        )
        names = {f"x{at}": values.view(Values) for at, values in enumerate(inputs)}
        names |= {"np": Numpy, "one": lambda value, of: numpy.array(value).astype(of)}
        with numpy.errstate(all="ignore"):
            exec("\n".join(self.numpy), names)
        for at, output in zip(self.outputs, outputs):
            # What was converted to the type of its own is a plain array again.
            expected = numpy.asarray(names[f"v{at}"]).astype(self.types[at])
            rocrepro.equal(f"program {seed}, v{at}", output.get(), expected)
        for array in arrays:
            must(hip.hipFree(array.memory))


class Values(numpy.ndarray):
    """An array with Triton's word for conversions."""

    def to(self, of):
        return self.astype(of)


class Numpy:
    """NumPy's functions under the names that both sides have."""

    minimum, maximum = staticmethod(numpy.minimum), staticmethod(numpy.maximum)
    int8, uint8, int16, uint16 = numpy.int8, numpy.uint8, numpy.int16, numpy.uint16
    int32, uint32, float16, float32 = numpy.int32, numpy.uint32, numpy.float16, numpy.float32

    @staticmethod
    def where(condition, a, b):
        return numpy.where(condition, a, b).view(Values)


def module(programs):
    """The kernels: Triton reads their text from a file."""
    text = "import triton\nimport triton.language as tl\n\n\n" + "\n\n\n".join(
        program.source(f"drawn{seed}") for seed, program in programs.items()
    )
    path = pathlib.Path(tempfile.mkdtemp()) / "drawn.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("drawn", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def parameters():
    """First seed and number of programs: of the case, or behind the name of this program."""
    if len(sys.argv) == 3:
        return int(sys.argv[1]), int(sys.argv[2])
    return int(rocrepro.parameter("first")), int(rocrepro.parameter("count"))


first, count = parameters()
must(hip.hipInit(0))
triton.runtime.driver.set_active(HIPDriver())
programs = {seed: Program(seed) for seed in range(first, first + count)}
kernels = module(programs)
rocrepro.phase("programs")
for seed, program in programs.items():
    print("program", seed, flush=True)
    program.check(getattr(kernels, f"drawn{seed}"), seed)
print(count, "programs: compared")
rocrepro.done()
