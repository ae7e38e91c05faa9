"""Products of matrices in the forms that linear layers and attention use, against float64 on the host."""

import warnings

import rocrepro
import torch
import torch.nn.functional as F

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[rocrepro.parameter("type")]
library = rocrepro.parameter("library")
torch.backends.cuda.preferred_blas_library(library)
# Right to the last but few bits of what a sum of so many terms is rounded to.
near = {
    "f32": {"relative": 1e-5, "absolute": 1e-3},
    "f16": {"relative": 4e-3, "absolute": 0.06},
    "bf16": {"relative": 2e-2, "absolute": 0.5},
}[rocrepro.parameter("type")]
torch.manual_seed(11)


def drawn(*shape):
    """Numbers that the type has, here as float64 and there."""
    here = torch.randn(*shape).to(kind)
    return here.double(), here.cuda()


def check(name, there, right):
    rocrepro.close(name, there.double().cpu(), right, **near)


rocrepro.phase("products")
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    for m, n, k in [(64, 64, 64), (16, 768, 256), (1, 512, 256), (37, 53, 129), (3, 5, 7)]:
        (a, ta), (b, tb), (w, tw), (c, tc) = drawn(m, k), drawn(k, n), drawn(n, k), drawn(n)
        at = "%dx%dx%d" % (m, n, k)
        check("mm " + at, ta @ tb, a @ b)
        check("linear " + at, F.linear(ta, tw, tc), F.linear(a, w, c))
        check("transposed " + at, (tb.t() @ ta.t()).t(), a @ b)
        (q, tq), (v, tv) = drawn(6, m, k), drawn(6, k, n)
        check("batched " + at, torch.bmm(tq, tv), torch.bmm(q, v))
        (s, ts) = drawn(6, m, n)
        check("added " + at, torch.baddbmm(ts, tq, tv, beta=0.5), torch.baddbmm(s, q, v, beta=0.5))
told = [str(one.message) for one in heard if "NOT_SUPPORTED" in str(one.message)]
rocrepro.holds("nothing is unsupported", not told, "; ".join(told[:1]))
rocrepro.done()
