# case: capture/unjoined-fork
"""A capture forks a second stream and forgets to join it. The stream is used afterwards."""
import torch

x = torch.ones(4096, device="cuda")
stream, side = torch.cuda.Stream(), torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph, stream=stream):
        y = x + 1
        side.wait_stream(stream)
        with torch.cuda.stream(side):
            z = x * 2
except RuntimeError as error:
    print("refused:", str(error).splitlines()[0])
with torch.cuda.stream(stream):
    w = torch.sub(x, 1)
    stream.synchronize()
print(w.sum().item())
