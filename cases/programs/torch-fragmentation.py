"""A large tensor after a small one was put into a large block that was free."""

import os

import rocrepro

setting = rocrepro.parameter("setting")
LIMIT = "max_split_size_mb:64"
os.environ.update(
    {
        "default": {},
        "no-cache": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTORCH_NO_HIP_MEMORY_CACHING": "1"},
        "split-limit": {"PYTORCH_CUDA_ALLOC_CONF": LIMIT, "PYTORCH_HIP_ALLOC_CONF": LIMIT},
        "split-variable": {"PYTORCH_MAX_SPLIT_SIZE_MB": "64"},
    }[setting]
)

import torch

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

MIB = 1 << 20


def bytes_of(mib, value):
    return torch.full((mib * MIB,), value, dtype=torch.uint8, device="cuda")


total = torch.cuda.mem_get_info()[1] // MIB
large = total * 6 // 10
rocrepro.phase("small")
first = bytes_of(large, 1)
rocrepro.equal("the first", int(first.min()), 1)
del first
small = bytes_of(16, 2)
reserved, allocated = torch.cuda.memory_reserved() // MIB, torch.cuda.memory_allocated() // MIB
print("measured: %d MiB reserved, %d MiB allocated, of %d MiB" % (reserved, allocated, total))
rocrepro.phase("large")
told, seen = None, [1, 1]
try:
    second = bytes_of(large + 32, 3)
    seen = [int(second.min()), int(second.max())]
except torch.OutOfMemoryError as error:
    told = str(error).split("\n")[0]
    print("measured: " + told)
# Zeros stand for a refusal that names what is reserved.
if told and "reserved by PyTorch but unallocated" in told:
    seen = [0, 0]
rocrepro.equal("the second", seen, [0, 0] if setting in ("default", "split-variable") else [3, 3])
rocrepro.equal("the small one", [int(small.min()), int(small.max())], [2, 2])
rocrepro.done()
