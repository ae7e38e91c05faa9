# case: graphs/long-chain
"""A loop of 30 000 small steps in one graph."""
import torch

x = torch.zeros(16, device="cuda")
x.add_(1)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(30000):
        x.add_(1)
x.zero_()
graph.replay()
assert x.sum().item() == 16 * 30000
