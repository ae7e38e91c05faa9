# case: graphs/long-chain
"""A recurrence over a long sequence, captured as a whole."""
import torch

steps = 9000
state, inputs = torch.zeros(8, device="cuda"), torch.rand(steps, 8, device="cuda")
decay = torch.full((8,), 0.5, device="cuda")


def run():
    for step in range(steps):
        state.mul_(decay).add_(inputs[step])
        state.clamp_(max=10)


graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    run()
graph.replay()
print(state.sum().item())
