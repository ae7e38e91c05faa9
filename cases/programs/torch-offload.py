"""Layers that need more memory than the device has, moved at once, one by one, or one at a time and back."""

import rocrepro
import torch

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

MIB = 1 << 20
how = rocrepro.parameter("how")
torch.manual_seed(17)
# Each layer takes an eighth of the memory that the device reports.
side = int((torch.cuda.mem_get_info()[1] / 8 / 4) ** 0.5)
layers = torch.nn.Sequential(*[torch.nn.Linear(side, side, bias=False) for _ in range(8)])
x = torch.randn(4, side)
rocrepro.phase("move")
told, got = None, None
with torch.no_grad():
    right = layers(x)
    try:
        if how == "offload":
            got = x.cuda()
            for layer in layers:
                layer.cuda()
                got = layer(got)
                layer.cpu()
                torch.cuda.empty_cache()
        else:
            for part in layers if how == "each" else [layers]:
                part.cuda()
                torch.cuda.empty_cache()
            got = layers(x.cuda())
    except torch.OutOfMemoryError as error:
        told = str(error).split("\n")[0]
        print("measured: " + told)
print("measured: at most %d MiB reserved" % (torch.cuda.max_memory_reserved() // MIB))
# Zero stands for a refusal, where the layers do not fit.
there = [0.0] if told else got.double().cpu()
rocrepro.close("what the layers compute", there, right.double() if how == "offload" else [0.0], absolute=1e-4)
# The error leaves a process that can go on.
rocrepro.phase("afterwards")
layers.cpu()
torch.cuda.empty_cache()
small = torch.arange(1, 65, dtype=torch.float32)
rocrepro.equal("a small sum", (small.cuda() * 2 + 1).cpu(), small * 2 + 1)
rocrepro.done()
