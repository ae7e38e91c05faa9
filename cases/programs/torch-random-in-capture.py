"""Random numbers inside a capture, and the state of the generator there."""

import rocrepro
import torch
import torch.nn.functional as F

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

what = rocrepro.parameter("what")
version = tuple(int(part) for part in torch.__version__.split(".")[:2])
# 2.6 refuses to read the generator's state in a capture, 2.11 allows it (pytorch/pytorch#162505).
old, new = version <= (2, 6), version >= (2, 11)
ones = torch.ones(4096, device="cuda")


def function(x):
    return F.dropout(x, 0.5, training=True) + torch.rand_like(x)


def graph_of(function):
    for _ in range(3):
        function(ones)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = function(ones)
    return graph, output


def sequence(graph, output, length=3):
    torch.cuda.manual_seed(42)
    found = []
    for _ in range(length):
        graph.replay()
        found.append(output.clone().cpu())
    return found


rocrepro.phase(what)
if what == "replays":
    graph, output = graph_of(function)
    one, other = sequence(graph, output), sequence(graph, output)
    for number, (a, b) in enumerate(zip(one, other)):
        rocrepro.equal("replay %d with the same seed" % number, b, a)
        kept = float((a >= 2).float().mean())
        rocrepro.holds("replay %d keeps about half" % number, 0.4 < kept < 0.6, "it keeps %s" % kept)
    rocrepro.holds("replays differ", not torch.equal(one[0], one[1]) and not torch.equal(one[1], one[2]))
    torch.cuda.manual_seed(42)
    eager = [function(ones).cpu() for _ in range(3)]
    for number, (a, b) in enumerate(zip(one, eager)):
        rocrepro.equal("replay %d as the eager run" % number, a, b)
elif what == "state":
    # What the state is inside a capture, and what comes of it if it is set again behind it.
    held = []

    def asks(x):
        held.append(torch.cuda.get_rng_state())
        return function(x)

    told = None
    try:
        graph, output = graph_of(asks)
    except RuntimeError as error:
        told = str(error).split("\n")[0]
    print("measured: get_rng_state in a capture: " + (told or "answers %d bytes" % held[-1].numel()))
    if old:
        rocrepro.holds("the state is refused in a capture", "current_seed" in str(told), str(told))
    elif new:
        rocrepro.holds("the state can be asked for in a capture", told is None, str(told))
    if told is None:
        one, other = sequence(graph, output), sequence(graph, output)
        for number, (a, b) in enumerate(zip(one, other)):
            rocrepro.equal("replay %d with the same seed" % number, b, a)
        rocrepro.holds("replays differ", not torch.equal(one[0], one[1]))
elif what == "compiled":
    compiled = torch.compile(function)
    graph, output = graph_of(compiled)
    one, other = sequence(graph, output), sequence(graph, output)
    for number, (a, b) in enumerate(zip(one, other)):
        rocrepro.equal("replay %d with the same seed" % number, b, a)
    rocrepro.holds("replays differ", not torch.equal(one[0], one[1]) and not torch.equal(one[1], one[2]))
else:
    # The two patches that are passed on: what they replace must be there and be called, or they do nothing.
    import torch._dynamo.convert_frame as frames
    import torch._dynamo.utils as utils

    calls = {"convert_frame": 0, "utils": 0}
    there = {"convert_frame": hasattr(frames, "preserve_global_state")}
    there["utils"] = hasattr(utils, "preserve_global_state")
    kept = {"convert_frame": (frames, getattr(frames, "preserve_global_state", None))}
    kept["utils"] = (utils, getattr(utils, "preserve_global_state", None))

    def counted(name, original):
        def patched(*arguments, **options):
            calls[name] += 1
            return original(*arguments, **options) if original else None

        return patched

    for name, (module, original) in kept.items():
        module.preserve_global_state = counted(name, original)
    compiled = torch.compile(lambda x: torch.sin(x) + 1)
    with torch.no_grad():
        compiled(ones)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = compiled(ones)
    graph.replay()
    wanted = torch.sin(ones.double()) + 1
    rocrepro.close("compiled and captured", output.double().cpu(), wanted.cpu(), absolute=1e-6)
    for name in sorted(calls):
        answer = "is there" if there[name] else "is not there"
        print("measured: %s.preserve_global_state %s, called %d times" % (name, answer, calls[name]))
    rocrepro.holds("the name of the first patch is there", there["convert_frame"])
    rocrepro.holds("the name of the second patch is not there", not there["utils"])
    # In 2.11 the decorator was applied when the module was read, so a later replacement is not used. 2.6 uses it.
    if new:
        rocrepro.status("calls of what the first patch sets", calls["convert_frame"], 0)
    elif old:
        rocrepro.holds("what the first patch sets is called", calls["convert_frame"] > 0)
    rocrepro.status("calls of what the second patch sets", calls["utils"], 0)
    # The first patch, as it is passed on, and a compilation inside a capture: Inductor reads the state by itself.
    frames.preserve_global_state = lambda function: function
    told = None
    try:
        with torch.no_grad(), torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.compile(lambda x: torch.cos(x) * 3)(ones)
    except Exception as error:
        told = type(error).__name__ + ": " + " ".join(str(error).split())[:200]
    print("measured: a compilation in a capture, with the first patch: " + (told or "it goes through"))
    if old:
        rocrepro.holds("the first patch is not enough", "current_seed" in str(told), str(told))
rocrepro.done()
