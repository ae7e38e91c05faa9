"""Settings of Inductor that are passed on as advice: they exist, and a block computes the same."""

import rocrepro
import torch
import torch._inductor.config as settings
from torch import nn

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

ADVICE = {
    "triton.cudagraphs": False,
    "triton.cudagraph_trees": False,
    "memory_planning": False,
    "max_autotune_gemm_backends": "ATEN",
    "max_autotune": False,
    "coordinate_descent_tuning": True,
    "epilogue_fusion": True,
    "aggressive_fusion": True,
}


def value(name):
    at = settings
    for part in name.split("."):
        at = getattr(at, part)
    return at


which = rocrepro.parameter("setting")
chosen = {
    "none": {},
    "all": ADVICE,
    # What the advice takes away, asked for instead.
    "graphs": {"triton.cudagraphs": True, "triton.cudagraph_trees": True},
    "graphs-without-trees": {"triton.cudagraphs": True, "triton.cudagraph_trees": False},
    "planning": {"memory_planning": True},
    "autotune": {"max_autotune": True, "max_autotune_gemm_backends": "ATEN,TRITON"},
}[which]

for name in sorted(ADVICE):
    try:
        now = value(name)
        print("measured: %s is %r where nobody sets it" % (name, now))
        rocrepro.holds("exists " + name, True)
    except AttributeError:
        rocrepro.holds("exists " + name, False, "there is no such setting")

torch.manual_seed(3)
block = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).double()
x = torch.randn(32, 64, dtype=torch.float64)
right = block(x).detach()
block = block.float().cuda()
rocrepro.phase("compile")
with settings.patch(chosen):
    compiled = torch.compile(block)
    for number in range(4):
        with torch.no_grad():
            got = compiled((x * (number + 1)).float().cuda()).clone()
        reference = block(x.float().cuda() * (number + 1)).detach().double().cpu()
        rocrepro.close("call %d as eager" % number, got.double().cpu(), reference, absolute=1e-4)
        if number == 0:
            rocrepro.close("as float64 on the host", got.double().cpu(), right, absolute=1e-4)

# The wrapper of torch.compile that is passed on turns reduce-overhead into default ...
plain = torch.compile


def safe(model=None, **options):
    if options.get("mode") in (None, "reduce-overhead"):
        options["mode"] = "default"
    return plain(model, **options)


rocrepro.phase("wrapper")
double = safe(lambda x: torch.sin(x) * 2, mode="reduce-overhead")
with torch.no_grad():
    inputs = [torch.linspace(i, i + 1, 100, device="cuda") for i in range(5)]
    outputs = [double(x) for x in inputs]
for number, (a, b) in enumerate(zip(outputs, inputs)):
    wanted = torch.sin(b.double()) * 2
    rocrepro.close("wrapped %d" % number, a.double().cpu(), wanted.cpu(), absolute=1e-5)
# ... and refuses what compiled without it: mode and options do not go together.
fine = plain(lambda x: x + 1, options={"epilogue_fusion": True})
rocrepro.equal("options without the wrapper", fine(inputs[1]).cpu(), (inputs[1] + 1).cpu())
rocrepro.raises(
    "options with the wrapper", RuntimeError, lambda: safe(lambda x: x + 1, options={"epilogue_fusion": True})
)
rocrepro.done()
