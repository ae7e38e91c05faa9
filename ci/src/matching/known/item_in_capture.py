# case: capture/stream-after-invalidated-capture
"""A training loop that falls back to eager work after a loss was read inside a capture."""
import torch

weights = torch.ones(64, device="cuda", requires_grad=True)
data = torch.arange(64, dtype=torch.float32, device="cuda")
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        loss = (weights.detach() * data).sum()
        print("loss", loss.item())
except RuntimeError as error:
    print("no graph, going on eagerly:", str(error).splitlines()[0])
loss = (weights * data).sum()
loss.backward()
print("loss", loss.item())
