"""What everybody does first with JAX, compared with NumPy on the host."""

import jax
import jax.numpy as jnp
import numpy

print("jax", jax.__version__, "on", jax.devices()[0].platform, len(jax.devices()))
draw = numpy.random.RandomState(0)

x = numpy.arange(1_000, dtype="float32")
assert (numpy.asarray(jax.jit(lambda x: x * 2 + 1)(x)) == x * 2 + 1).all()
print("elementwise: right")

a = draw.randint(-3, 4, (64, 300)).astype("float32")
assert (numpy.asarray(jnp.sum(a, axis=1)) == a.sum(axis=1)).all()
assert float(jnp.max(a)) == a.max()
print("reductions: right")

b = draw.randint(-3, 4, (300, 32)).astype("float32")
assert (numpy.asarray(jnp.dot(a, b)) == a @ b).all()
print("product of matrices: right")


def doubled(_, value):
    return value * 2 + 1


wanted = numpy.ones(100, "int32")
for _ in range(10):
    wanted = wanted * 2 + 1
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 10, doubled, x))
assert (numpy.asarray(loop(numpy.ones(100, "int32"))) == wanted).all()
print("loop: right")
