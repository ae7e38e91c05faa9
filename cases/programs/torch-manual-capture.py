"""Graphs captured by hand, replayed on new inputs, against the same function run eagerly."""

import rocrepro
import torch
from torch import nn

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

torch.manual_seed(9)
first = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).cuda().eval()
second = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.Tanh()).cuda().eval()
ROWS = 32
way = rocrepro.parameter("way")
pool = torch.cuda.graph_pool_handle()


def drawn(number, rows=ROWS):
    return torch.randn(rows, 64, generator=torch.Generator().manual_seed(number)).cuda()


def warmed(function, *inputs):
    with torch.no_grad():
        for _ in range(3):
            function(*inputs)
    torch.cuda.synchronize()


def captured(function, *inputs):
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph, pool=pool):
        output = function(*inputs)
    return graph, output


def near(name, got, right, before=None):
    rocrepro.close(name, got.cpu(), right.cpu(), relative=1e-4, absolute=1e-4, before=before)


def replays(graph, output, static, function):
    outputs = []
    for number in range(3):
        now = drawn(100 + number)
        static.copy_(now)
        graph.replay()
        # The clone is made in the order of the stream: the next replay writes behind it.
        outputs.append((output.clone(), function(now)))
    for number, (got, right) in enumerate(outputs):
        near("replay %d" % number, got, right)


both = lambda x: second(first(x))
static = drawn(0)
with torch.no_grad():
    rocrepro.phase(way)
    if way in ("eager", "compiled", "regions", "before-compilation"):
        if way == "eager":
            function = both
        elif way == "regions":
            one, two = torch.compile(first), torch.compile(second)
            function = lambda x: two(one(x) * 2)
            both = lambda x: second(first(x) * 2)
        else:
            function = torch.compile(both, mode="default")
        if way != "before-compilation":
            warmed(function, static)
        told = None
        try:
            graph, output = captured(function, static)
        except Exception as error:
            told = type(error).__name__ + ": " + " ".join(str(error).split())[:300]
        print("measured: the capture: " + (told or "it goes through"))
        forbidden = way == "before-compilation"
        name = "the capture is refused" if forbidden else "the capture goes through"
        rocrepro.holds(name, (told is not None) == forbidden, told or "nothing is raised")
        if told is None:
            replays(graph, output, static, both)
    elif way == "two-graphs":
        warmed(first, static), warmed(second, static)
        one, middle = captured(first, static)
        two, end = captured(second, middle)
        for number in range(3):
            now = drawn(200 + number)
            static.copy_(now)
            one.replay(), two.replay()
            near("first %d" % number, middle.clone(), first(now))
            near("second %d" % number, end.clone(), second(first(now)))
    elif way == "shared-pool-apart":
        # Two graphs of one pool whose outputs are both kept, replayed in the order of their captures.
        other = drawn(1)
        warmed(first, static), warmed(second, other)
        one, left = captured(first, static)
        two, right = captured(second, other)
        for number in range(3):
            a, b = drawn(300 + number), drawn(400 + number)
            static.copy_(a), other.copy_(b)
            one.replay(), two.replay()
            near("left %d" % number, left.clone(), first(a))
            near("right %d" % number, right.clone(), second(b))
            two.replay(), one.replay()
            near("left %d the other way round" % number, left.clone(), first(a))
            # Nobody promises this: memory that the left one no longer needed may be the right one's output.
            whole = torch.allclose(right, second(b), atol=1e-4)
            print("measured: right, replayed before left: " + ("kept" if whole else "overwritten"))
    elif way == "shorter-input":
        warmed(first, static)
        graph, output = captured(first, static)
        short = drawn(5, rows=20)
        rocrepro.raises("a shorter input is refused", RuntimeError, static.copy_, short)
        rocrepro.equal("and leaves what was there", static.cpu(), drawn(0).cpu())
        static.copy_(nn.functional.pad(short, (0, 0, 0, ROWS - 20)))
        graph.replay()
        near("padded", output[:20], first(short))
        # One row is no mistake of shape: it is repeated.
        static.copy_(drawn(6, rows=1))
        graph.replay()
        near("one row is repeated", output, first(drawn(6, rows=1)).expand(ROWS, 64))
    elif way == "output-reused":
        warmed(first, static)
        graph, output = captured(first, static)
        static.copy_(drawn(7)), graph.replay()
        kept, taken = output, output.clone()
        static.copy_(drawn(8)), graph.replay()
        # Nobody warns here: the tensor of a graph captured by hand just has the next result.
        near("the output of the graph is the next result", kept, first(drawn(8)))
        near("the clone is the result before", taken, first(drawn(7)))
    else:
        # Memory: replays take none, and a captured graph gives its own back.
        warmed(first, static)
        torch.cuda.empty_cache()
        graph, output = captured(first, static)
        reserved, allocated = torch.cuda.memory_reserved(), torch.cuda.memory_allocated()
        peak = torch.cuda.max_memory_allocated()
        for number in range(20):
            static.copy_(drawn(number)), graph.replay()
        torch.cuda.synchronize()
        near("the last replay", output, first(drawn(19)))
        rocrepro.status("reserved as after the capture", torch.cuda.memory_reserved(), reserved)
        most = max(peak, allocated + 65536)
        rocrepro.holds("no peak by replays", torch.cuda.max_memory_allocated() <= most)
        held = torch.cuda.memory_reserved()
        del graph, output
        torch.cuda.empty_cache()
        rocrepro.holds("a graph that is gone gives memory back", torch.cuda.memory_reserved() < held)
rocrepro.done()
