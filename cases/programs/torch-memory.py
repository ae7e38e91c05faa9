"""PyTorch's cache of device memory under the settings that are passed on for it."""

import os
import warnings

import rocrepro

setting = rocrepro.parameter("setting")
SETTINGS = {
    "default": {},
    "no-cache": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    "no-cache-hip": {"PYTORCH_NO_HIP_MEMORY_CACHING": "1"},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "expandable-hip": {"PYTORCH_HIP_ALLOC_CONF": "expandable_segments:True"},
    "split-variable": {"PYTORCH_MAX_SPLIT_SIZE_MB": "256"},
    "split-conf": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:256"},
    "split-conf-hip": {"PYTORCH_HIP_ALLOC_CONF": "max_split_size_mb:256"},
}
os.environ.update(SETTINGS[setting])

import torch

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

MIB = 1 << 20
# Builds for CUDA read the variable by its other name, too.
cached = not setting.startswith("no-cache")


def free():
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    torch.zeros(1, device="cuda")
torch.cuda.empty_cache()
rocrepro.phase("read")
told = [str(one.message) for one in heard if "expandable" in str(one.message)]
known = torch.cuda.memory._snapshot().get("allocator_settings", {})
for name in ("max_split_size", "expandable_segments", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
    print("measured: %s is %r" % (name, known.get(name)))
print("measured: warnings: %r" % told)
# A build of 2.6 for ROCm reads PYTORCH_HIP_ALLOC_CONF alone and has no expandable segments. One of 2.11 for CUDA reads
# both names and has them. Versions between them were not tried and are not judged.
version = tuple(int(part) for part in torch.__version__.split(".")[:2])
old = bool(torch.version.hip) and version <= (2, 6)
judged = old or version >= (2, 11)
# A variable of its own is not read; a word of the configuration is.
read = setting == "split-conf-hip" or setting == "split-conf" and not old
if judged or setting != "split-conf":
    rocrepro.status("the largest block that is split", known.get("max_split_size"), 256 * MIB if read else -1)
if old:
    warned = setting == "expandable-hip"
    rocrepro.holds("expandable segments are refused by a warning", bool(told) == warned, str(told[:1]))
    rocrepro.holds("segments are not expandable", known.get("expandable_segments") is False)
elif judged:
    rocrepro.holds("expandable segments are supported", not told, "; ".join(told[:1]))
    if setting == "expandable" or setting == "expandable-hip" and torch.version.hip:
        rocrepro.holds("segments are expandable", known.get("expandable_segments") is True)

rocrepro.phase("come-back")
before = free()
blocks = [torch.full((64 * MIB,), i + 1, dtype=torch.uint8, device="cuda") for i in range(8)]
for number, block in enumerate(blocks):
    least, most = (int(one) for one in torch.aminmax(block))
    rocrepro.equal("block %d" % number, [least, most], [number + 1, number + 1])
during = free()
rocrepro.holds("blocks take memory", before - during >= 8 * 64 * MIB, "%d taken" % (before - during))
del blocks, block
after = free()
if cached:
    rocrepro.holds("the cache keeps what was freed", before - after >= 8 * 64 * MIB)
    rocrepro.holds("and says so", torch.cuda.memory_reserved() >= 8 * 64 * MIB)
    again = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)]
    rocrepro.given_back("what is cached is used again", after, free())
    del again
    torch.cuda.empty_cache()
rocrepro.holds("free memory is back", before - free() < 8 * MIB, "%d lost" % (before - free()))
rocrepro.holds("nothing is reserved", torch.cuda.memory_reserved() < 8 * MIB)

if cached:
    # What is reserved and not allocated is given up when another size needs it: no block is in the way.
    rocrepro.phase("give-up")
    total = torch.cuda.mem_get_info()[1]
    held = torch.cuda.memory_reserved()
    torch.cuda.set_per_process_memory_fraction((held + 700 * MIB) / total)
    blocks = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(10)]
    del blocks
    try:
        large = torch.full((600 * MIB,), 7, dtype=torch.uint8, device="cuda")
        rocrepro.equal("a large block in their place", int(large.min()), 7)
        del large
    except torch.OutOfMemoryError as error:
        rocrepro.holds("a large block in their place", False, str(error).split("\n")[0])
    blocks = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(10)]
    refused = torch.OutOfMemoryError
    rocrepro.raises("more than there is", refused, lambda: torch.empty(600 * MIB, device="cuda"))
    del blocks
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()

# A module that moves to the host gives its memory back before the next one comes.
rocrepro.phase("module")
before = free()
module = torch.nn.Linear(4096, 4096, bias=False).cuda()
weights = module.weight.detach().cpu()
module.cpu()
torch.cuda.empty_cache()
rocrepro.holds("a moved module gives back", before - free() < 8 * MIB, "%d lost" % (before - free()))
rocrepro.holds("with its weights", torch.equal(module.weight.detach(), weights))
rocrepro.done()
