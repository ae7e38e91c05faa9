"""The Cholesky factor of a well-conditioned matrix of 32 rows, held against NumPy's."""

import cupy
import numpy
import rocrepro

random = numpy.random.RandomState(0)
a = random.rand(32, 32)
a = a @ a.T + 32 * numpy.eye(32)
rocrepro.phase("cholesky")
got = cupy.linalg.cholesky(cupy.asarray(a)).get()
rocrepro.close("factor", got, numpy.linalg.cholesky(a), relative=1e-8, absolute=1e-10)
rocrepro.done()
