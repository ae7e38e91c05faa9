"""What is passed on about Triton kernels: sizes of blocks, sums of bf16, and a tanh written by hand."""

import rocrepro
import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    # It has other names in other builds of PyTorch, so it is no package of the case.
    rocrepro.skip("this PyTorch came without Triton")

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)


@triton.jit
def row_sums(x, out, n, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """The sum of a row, a block at a time, in float32 or in the type of the row."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32 if WIDE else tl.bfloat16)
    for start in range(0, n, BLOCK):
        part = tl.load(x + row * n + start + i, mask=start + i < n, other=0.0)
        total += part.to(tl.float32) if WIDE else part
    tl.store(out + row, tl.sum(total.to(tl.float32), 0))


@triton.jit
def by_hand(x, out, n, BLOCK: tl.constexpr, WAY: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    if WAY == 1:
        v = tl.minimum(tl.maximum(v, -10.0), 10.0)
    if WAY == 2:
        e = tl.exp(-2 * tl.abs(v))
        y = tl.where(v < 0, -1.0, 1.0) * (1 - e) / (1 + e)
    else:
        e = tl.exp(2 * v)
        y = (e - 1) / (e + 1)
    tl.store(out + i, y, mask=i < n)


block = int(rocrepro.parameter("block"))
torch.manual_seed(13)
rows, n = 8, 5000
x = (torch.rand(rows, n) + 0.5).to(torch.bfloat16)
right = x.double().sum(1)
rocrepro.phase("sums")
out = torch.full((rows,), -1.0, device="cuda")
there = x.cuda()
row_sums[(rows,)](there, out, n, BLOCK=block, WIDE=True)
rocrepro.close("sums in float32", out.double().cpu(), right, relative=1e-5, before=[-1.0] * rows)
narrow = torch.full((rows,), -1.0, device="cuda")
row_sums[(rows,)](there, narrow, n, BLOCK=block, WIDE=False)
wide_off = float(((out.double().cpu() - right) / right).abs().max())
narrow_off = float(((narrow.double().cpu() - right) / right).abs().max())
print("measured: relative error %.1e in float32, %.1e in bfloat16" % (wide_off, narrow_off))
# With several terms for each lane the narrow sum rounds away what the wide one keeps.
rocrepro.holds("sums in bfloat16 are worse", narrow_off > wide_off)

rocrepro.phase("tanh")
v = torch.cat([torch.linspace(-100, 100, 4001), torch.tensor([-1e30, -45.0, 0.0, 45.0, 1e30])])
exact = torch.tanh(v.double())
got = {}
for way in range(3):
    out = torch.full_like(v, 7.0).cuda()
    by_hand[(triton.cdiv(len(v), block),)](v.cuda(), out, len(v), BLOCK=block, WAY=way)
    got[way] = out.cpu()
large = v > 45
rocrepro.holds("without a clamp large ones are NaN", bool(got[0][large].isnan().all()))
rocrepro.holds("without a clamp small ones are no NaN", not bool(got[0][v < 40].isnan().any()))
rocrepro.close("with a clamp", got[1].double(), exact, absolute=2e-6)
rocrepro.close("by exp of what is negative", got[2].double(), exact, absolute=2e-6)
rocrepro.close("torch.tanh", torch.tanh(v.cuda()).double().cpu(), exact, absolute=2e-6)
rocrepro.done()
