"""Batches of dictionaries that a DataLoader made, with or without workers, reach the device whole."""

import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    """Each number says which sample and which element it is; none is zero."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        latents = torch.arange(1, 1 + 64 * 64, dtype=torch.float32).reshape(1, 64, 64)
        return {
            "latents": latents + 10000 * (i + 1),
            "small": torch.arange(1, 17, dtype=torch.float32).reshape(4, 4) + 100 * i,
            "ids": torch.arange(1, 78) + i,
            "half": (torch.arange(1, 33) + i).to(torch.bfloat16),
        }


def right(first, size):
    samples = [Samples()[i] for i in range(first, first + size)]
    return {key: torch.stack([one[key] for one in samples]) for key in samples[0]}


# Spawned workers import this file again, and have nothing to say.
if __name__ == "__main__":
    import rocrepro

    if not torch.cuda.is_available():
        rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)
    workers = int(rocrepro.parameter("workers"))
    pin = rocrepro.parameter("pin") == "yes"
    context = "spawn" if workers else None
    torch.zeros(1, device="cuda")
    rocrepro.phase("batches")
    loader = DataLoader(
        Samples(), batch_size=4, num_workers=workers, pin_memory=pin, multiprocessing_context=context
    )
    seen = 0
    for number, batch in enumerate(loader):
        wanted = right(4 * number, 4)
        for key in sorted(wanted):
            moved = batch[key].to("cuda", non_blocking=pin)
            name = "batch %d %s" % (number, key)
            rocrepro.equal(name + " on the host", batch[key].float(), wanted[key].float())
            rocrepro.equal(name + " from the device", moved.cpu().float(), wanted[key].float())
        seen += 1
    rocrepro.status("batches", seen, 2)
    rocrepro.done()
