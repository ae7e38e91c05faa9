"""What everybody does first with CuPy, compared with NumPy on the host."""

import cupy
import numpy

print("cupy", cupy.__version__, "on", cupy.cuda.runtime.getDeviceProperties(0)["gcnArchName"].decode())
draw = numpy.random.RandomState(0)

x = numpy.arange(10_000, dtype="float32")
assert (cupy.asarray(x) * 2 + 1).get().tolist() == (x * 2 + 1).tolist()
print("elementwise: right")

a = draw.randint(-4, 5, (64, 48)).astype("float32")
b = draw.randint(-4, 5, (48, 32)).astype("float32")
assert float(cupy.asarray(a).sum()) == a.sum()
assert (cupy.asarray(a).max(axis=1).get() == a.max(axis=1)).all()
print("reductions: right")

assert ((cupy.asarray(a) @ cupy.asarray(b)).get() == a @ b).all()
print("product of matrices (rocBLAS): right")

signal = draw.rand(256).astype("complex64")
numpy.testing.assert_allclose(cupy.fft.fft(cupy.asarray(signal)).get(), numpy.fft.fft(signal), atol=1e-3)
print("Fourier transform (rocFFT): right")
