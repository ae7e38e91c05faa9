# case: gemm/blaslt-handle-in-capture
"""The first use of a linear layer with bias is inside a capture."""
import os

os.environ["TORCH_BLAS_PREFER_HIPBLASLT"] = "1"
import torch

layer, x = torch.nn.Linear(64, 64).cuda(), torch.rand(16, 64, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.no_grad(), torch.cuda.graph(graph):
    y = layer(x)
graph.replay()
print(y.sum().item())
