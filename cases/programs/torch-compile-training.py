"""Training steps of a small transformer, compiled, against the same in float64 on the host."""

import rocrepro
import torch
import torch.nn.functional as F
from torch import nn

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

WORDS, WIDTH, HEADS, LENGTH, BATCH, STEPS, MICRO = 64, 32, 2, 16, 2, 6, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, _ = x.shape
        parts = self.qkv(self.before(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.down(F.gelu(self.up(self.after(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids, targets=None):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        x = self.head(x)
        return x if targets is None else chunked_loss(x, targets)


def chunked_loss(x, targets):
    x, targets = x.reshape(-1, WORDS), targets.reshape(-1)
    chunks = zip(x.chunk(2), targets.chunk(2))
    return sum(F.cross_entropy(a, b, reduction="sum") for a, b in chunks) / len(targets)


mode, loss, mark = (rocrepro.parameter(name) for name in ("mode", "loss", "mark"))
torch.manual_seed(7)
start = Model().double()
ids = torch.randint(WORDS, (STEPS, MICRO, BATCH, LENGTH + 1))


def train(model, call, device):
    """The losses of all micro-steps, and the parameters at the end."""
    rate, losses = 0.5, []
    moved = ids.to(device)
    for step in range(STEPS):
        if mark == "step":
            torch.compiler.cudagraph_mark_step_begin()
        for micro in range(MICRO):
            if mark == "micro":
                torch.compiler.cudagraph_mark_step_begin()
            x, y = moved[step, micro, :, :-1], moved[step, micro, :, 1:]
            if loss == "inside":
                value = call(x, y)
            else:
                value = torch.compiler.disable(chunked_loss)(call(x).clone(), y.clone())
            (value / MICRO).backward()
            losses.append(value.item())
        with torch.no_grad():
            for weight in model.parameters():
                weight -= rate * weight.grad
                weight.grad = None
    return losses, [weight.detach().double().cpu() for weight in model.parameters()]


reference = Model().double()
reference.load_state_dict(start.state_dict())
right, weights = train(reference, reference, "cpu")
rocrepro.holds("the reference learns", right[-1] < right[0])

model = Model()
model.load_state_dict(start.state_dict())
model = model.float().cuda()
# Gradients are outputs of graphs, too: one that was made before the last mark may not be added to.
refused = mode == "reduce-overhead" and mark != "step"
call = model if mode == "eager" else torch.compile(model, mode=mode)
rocrepro.phase("training")
try:
    got, ended = train(model, call, "cuda")
except RuntimeError as error:
    told = str(error).split("\n")[0]
    print("measured: it raises: " + told)
    rocrepro.holds("training runs", refused, "it raises: " + told)
    rocrepro.holds("the refusal says why", "overwritten by a subsequent run" in told, told)
else:
    rocrepro.holds("training is refused" if refused else "training runs", not refused, "it runs")
    rocrepro.close("losses", got, right, relative=1e-4, absolute=1e-4)
    for number, (one, other) in enumerate(zip(ended, weights)):
        rocrepro.close("weight %d" % number, one, other, relative=1e-3, absolute=1e-4)
rocrepro.done()
