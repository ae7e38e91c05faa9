"""One call inside a capture: whether it raises or goes through, and whether the process goes on."""

import rocrepro
import torch

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

x = torch.arange(1, 65, dtype=torch.float32, device="cuda")
host = torch.arange(1, 65, dtype=torch.float32)
pinned = host.pin_memory()
compiled = torch.compile(lambda x: torch.sin(x) * 2)
into = torch.empty_like(x)
kept = []


def branch():
    if x.sum() > 0:
        kept.append(x * 2)


# What it does, and whether a capture forbids it.
CALLS = {
    "item": (lambda: x.sum().item(), True),
    "synchronize": (lambda: torch.cuda.synchronize(), True),
    "stream-synchronize": (lambda: torch.cuda.current_stream().synchronize(), True),
    "print": (lambda: str(x), True),
    "nonzero": (lambda: torch.nonzero(x), True),
    "to-host": (lambda: x.cpu(), True),
    "unpinned-copy": (lambda: into.copy_(host), True),
    "pinned-copy": (lambda: into.copy_(pinned, non_blocking=True), False),
    "branch-on-data": (branch, True),
    "manual-seed": (lambda: torch.cuda.manual_seed(1), True),
    "current-seed": (lambda: torch.cuda.initial_seed(), False),
    "get-rng-state": (lambda: torch.cuda.get_rng_state(), False),
    "compile-first": (lambda: kept.append(compiled(x)), True),
    "compile-another": (lambda: kept.append(compiled(x)), False),
    "new-size": (lambda: kept.append(torch.ones(12345, device="cuda")), False),
    "in-place-outside": (lambda: into.add_(x), False),
    "empty-cache": (lambda: torch.cuda.empty_cache(), False),
    "nothing": (lambda: None, False),
}
call, forbidden = CALLS[rocrepro.parameter("call")]
if rocrepro.parameter("call") == "compile-another":
    torch.compile(lambda x: torch.cos(x) + 3)(x)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
told = None
rocrepro.phase("capture")
try:
    with torch.cuda.graph(graph):
        before = x + 1
        call()
        after = before * 3
except Exception as error:
    told = type(error).__name__ + ": " + " ".join(str(error).split())[:300]
print("measured: " + (told or "it goes through"))
name = "it is forbidden" if forbidden else "it is allowed"
rocrepro.holds(name, (told is not None) == forbidden, told or "nothing is raised")

rocrepro.phase("afterwards")
if told is None:
    x.copy_(torch.arange(64, dtype=torch.float32))
    graph.replay()
    rocrepro.equal("the replay", after.cpu(), (torch.arange(64) + 1) * 3)
# Whether a capture that failed leaves a process that can capture.
try:
    torch.cuda.synchronize()
    again = torch.cuda.CUDAGraph()
    with torch.cuda.graph(again):
        result = x * 5
    again.replay()
    rocrepro.equal("the next capture", result.cpu(), x.cpu() * 5)
except RuntimeError as error:
    rocrepro.holds("the next capture", False, str(error).split("\n")[0])
rocrepro.done()
