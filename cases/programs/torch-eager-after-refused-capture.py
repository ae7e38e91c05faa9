"""Eager work after a capture that a call inside it has made invalid."""

import rocrepro
import torch

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

x = torch.arange(1, 65, dtype=torch.float32, device="cuda")
rocrepro.equal("before", (x * 5).cpu(), torch.arange(1, 65) * 5.0)
stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()


def capture():
    with torch.cuda.graph(graph, stream=stream):
        y = x * 2
        if rocrepro.parameter("call") == "item":
            y.sum().item()
        else:
            torch.cuda.synchronize()


rocrepro.phase("capture")
rocrepro.raises("the capture is refused", RuntimeError, capture)
rocrepro.phase("afterwards")
print("measured: the stream of the capture is the current one: %s" % (torch.cuda.current_stream() == stream))
if rocrepro.parameter("stream") == "new":
    torch.cuda.set_stream(torch.cuda.Stream())
else:
    torch.cuda.set_stream(stream)
rocrepro.holds("the stream does not capture", not torch.cuda.is_current_stream_capturing())
try:
    rocrepro.equal("eager work", (x * 5).cpu(), torch.arange(1, 65) * 5.0)
except RuntimeError as error:
    rocrepro.holds("eager work", False, str(error).split("\n")[0])
rocrepro.done()
