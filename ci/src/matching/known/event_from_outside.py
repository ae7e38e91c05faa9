# case: capture/wait-for-event-from-outside
"""A captured stream waits for an event of a prefetch outside; each replay must see the new batch."""
import torch

batch = torch.zeros(1024, device="cuda")
stream, copies, graph = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
ready = torch.cuda.Event()
ready.record(copies)
torch.cuda.synchronize()
try:
    with torch.cuda.graph(graph, stream=stream):
        stream.wait_event(ready)
        y = batch * 2
except RuntimeError as error:
    print("refused, as documented:", error)
else:
    raise SystemExit("the graph cannot wait for the prefetch, and no call has said so")
