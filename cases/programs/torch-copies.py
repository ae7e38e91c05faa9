"""A tensor goes to the device in one of the ways that PyTorch has, and comes back."""

import rocrepro
import torch

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

shape = [int(part) for part in rocrepro.parameter("shape").split("x")]
way = rocrepro.parameter("way")
count = 1
for part in shape:
    count *= part
# Every element is another number, and none is zero, so that a lost, moved or zeroed one shows.
sent = torch.arange(1, count + 1, dtype=torch.float32).reshape(shape)


def empty():
    return torch.full(shape, -1.0, device="cuda")


def copied():
    there = empty()
    there.copy_(sent)
    return there


def pinned():
    """The source stays alive until the stream has read it."""
    source = sent.pin_memory()
    there = source.to("cuda", non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return there


def side_stream():
    stream, source = torch.cuda.Stream(), sent.pin_memory()
    with torch.cuda.stream(stream):
        there = source.to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(stream)
    there.record_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().synchronize()
    return there


def behind_work():
    """A copy to the host without a wait, read at once and again after the wait that PyTorch asks for."""
    there = sent.cuda()
    torch.cuda.synchronize()
    torch.cuda._sleep(10_000_000)
    here = there.to("cpu", non_blocking=True)
    zeros = int((here == 0).sum())
    print("measured: read at once, before a wait: %d of %d elements are zero" % (zeros, count))
    torch.cuda.synchronize()
    rocrepro.equal("without-blocking", here, sent)
    return there


ways = {
    "to": lambda: sent.to("cuda"),
    "cuda": lambda: sent.cuda(),
    "copy": copied,
    "numpy": lambda: torch.from_numpy(sent.numpy().copy()).to("cuda"),
    "pinned": pinned,
    "side-stream": side_stream,
    "behind-work": behind_work,
    "transposed": lambda: sent.transpose(0, -1).to("cuda").transpose(0, -1),
}
rocrepro.phase("copy")
there = ways[way]()
rocrepro.holds("on-the-device", there.is_cuda)
# What the device computes from it, too: bytes that only went there and back could hide a second copy.
twice = there * 2 + 1
rocrepro.equal("back", there.cpu(), sent)
rocrepro.equal("computed", twice.cpu(), sent * 2 + 1)
into = torch.full(shape, -1.0).pin_memory()
into.copy_(there, non_blocking=True)
torch.cuda.current_stream().synchronize()
rocrepro.equal("back-to-pinned", into, sent, before=torch.full(shape, -1.0))
rocrepro.done()
