"""The numbers of replays with one seed, where the stream of the capture still has work at the first replay."""

import rocrepro
import torch

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

SLEEP, REPLAYS = 2_000_000, 8  # SLEEP in clock cycles
ones = torch.ones(4096, device="cuda")
torch.rand_like(ones)
torch.cuda.manual_seed(7)
torch.cuda.synchronize()

rocrepro.phase("capture")
stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
with torch.cuda.stream(stream):
    torch.cuda._sleep(SLEEP)
    graph.capture_begin()
    torch.cuda._sleep(4 * SLEEP)
    drawn = torch.rand_like(ones)
    graph.capture_end()
if rocrepro.parameter("order") == "wait":
    torch.cuda.current_stream().wait_stream(stream)

rocrepro.phase("replays")
replays = []
for _ in range(REPLAYS):
    torch.cuda.manual_seed(42)
    graph.replay()
    replays.append(drawn.clone())
torch.cuda.manual_seed(42)
eager = torch.rand_like(ones).cpu()
replays = torch.stack(replays).cpu()
wrong = [number for number in range(REPLAYS) if not torch.equal(replays[number], eager)]
print("measured: replays with other numbers: %s" % wrong)
rocrepro.equal("replays", replays, eager.expand(REPLAYS, -1))
rocrepro.holds("numbers are spread", 0.4 < float(eager.mean()) < 0.6, "their mean is %s" % float(eager.mean()))
rocrepro.done()
