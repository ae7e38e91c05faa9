"""The batches of a loader that Accelerate prepared, which moves them itself or leaves them where they are."""

import rocrepro
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

placed = rocrepro.parameter("placement") == "yes"


def sample(i):
    latents = torch.arange(1, 1 + 64 * 64, dtype=torch.float32).reshape(1, 64, 64)
    return {
        "latents": latents + 10000 * (i + 1),
        "small": torch.arange(1, 17, dtype=torch.float32).reshape(4, 4) + 100 * i,
        "nested": {"ids": torch.arange(1, 78) + i},
    }


samples = [sample(i) for i in range(32)]
accelerator = Accelerator()
rocrepro.phase("prepare")
loader = accelerator.prepare(DataLoader(samples, batch_size=16), device_placement=[placed])
model = torch.nn.Linear(4, 4)
model = accelerator.prepare(model)
rocrepro.holds("the-model-is-on-the-device", next(model.parameters()).is_cuda)
rocrepro.phase("batches")
seen = 0
for number, batch in enumerate(loader):
    here = samples[16 * number : 16 * number + 16]
    for key in ("latents", "small", "ids"):
        of = (lambda one: one["nested"][key]) if key == "ids" else (lambda one: one[key])
        got, right = of(batch), torch.stack([of(one) for one in here])
        name = "batch %d %s" % (number, key)
        # What `device_placement` says is what happens: no tensor is moved that was to stay.
        rocrepro.holds(name + " is where it was to be", got.is_cuda == placed)
        rocrepro.equal(name + " as it came", got.cpu(), right)
        rocrepro.equal(name + " from the device", got.to("cuda").cpu(), right)
    seen += 1
rocrepro.status("batches", seen, 2)
rocrepro.done()
