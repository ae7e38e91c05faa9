# case: capture/stream-after-invalidated-capture
"""A timed block inside a capture on a stream of the program's own, which goes on in that stream."""
import torch

x = torch.rand(256, 256, device="cuda")
stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
with torch.cuda.stream(stream):
    y = x @ x
stream.synchronize()
with torch.cuda.stream(stream):
    try:
        graph.capture_begin()
        y = x + 1
        stream.synchronize()
    except RuntimeError:
        try:
            graph.capture_end()
        except RuntimeError as error:
            print("refused:", str(error).splitlines()[0])
    z = torch.mul(x, 2)
    print("sum", z.sum().item())
