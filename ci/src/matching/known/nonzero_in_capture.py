# case: capture/stream-after-invalidated-capture
"""A model with a mask, whose shape depends on the data, is captured; the failure is logged and the model is used."""
import torch


class Masked(torch.nn.Module):
    def forward(self, x):
        return x[x > 0.5].sum() + x.sum()


model, x = Masked().cuda(), torch.linspace(0, 1, 100, device="cuda")
expected = model(x)
graph = torch.cuda.CUDAGraph()
captured = True
try:
    with torch.cuda.graph(graph):
        out = model(x)
except Exception as error:
    captured = False
    print("cannot capture:", str(error).splitlines()[0])
for step in range(3):
    if captured:
        graph.replay()
    else:
        out = model(x)
torch.testing.assert_close(out, expected)
