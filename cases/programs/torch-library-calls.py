"""The first call into each library, with and without PyTorch's cache of device memory."""

import os

import rocrepro

if rocrepro.parameter("cache") == "no":
    # Either name: of the builds for CUDA, and the one that is passed on for ROCm.
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = os.environ["PYTORCH_NO_HIP_MEMORY_CACHING"] = "1"
if rocrepro.parameter("call") == "attention":
    os.environ["TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL"] = "1"

import torch
import torch.nn.functional as F

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)
torch.manual_seed(5)
call = rocrepro.parameter("call")
rocrepro.phase(call)


def drawn(*shape):
    here = torch.randn(*shape)
    return here.double(), here.cuda()


def near(name, got, right, absolute=1e-3):
    rocrepro.close(name, got.double().cpu(), right, relative=1e-3, absolute=absolute)


torch.backends.cudnn.allow_tf32 = False
if call == "product":
    (a, ta), (b, tb) = drawn(64, 128), drawn(128, 32)
    near("product", ta @ tb, a @ b)
elif call == "convolution":
    (x, tx), (w, tw) = drawn(2, 4, 32, 32), drawn(8, 4, 3, 3)
    near("convolution", F.conv2d(tx, tw, padding=1), F.conv2d(x, w, padding=1))
elif call == "normalisation":
    x, tx = drawn(4, 8, 16, 16)
    right = F.batch_norm(x, None, None, training=True)
    near("batch norm", F.batch_norm(tx, None, None, training=True), right)
elif call == "attention":
    (q, tq), (k, tk), (v, tv) = drawn(2, 4, 64, 32), drawn(2, 4, 64, 32), drawn(2, 4, 64, 32)
    right = torch.softmax(q @ k.transpose(-1, -2) / 32**0.5, -1) @ v
    for kind, absolute in ((torch.float32, 1e-4), (torch.float16, 1e-2), (torch.bfloat16, 5e-2)):
        got = F.scaled_dot_product_attention(tq.to(kind), tk.to(kind), tv.to(kind))
        near("attention " + str(kind).split(".")[1], got, right, absolute)
elif call == "encoder":
    # A text encoder of the usual form, with random weights that are kept as bytes: 77 words, 2 layers.
    options = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True}
    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, **options)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double().eval()
    words, there = torch.randn(1, 77, 64).double(), {}
    with torch.no_grad():
        for name, weight in encoder.named_parameters():
            scale = float(weight.abs().max()) / 127 or 1.0
            kept = (weight / scale).round().to(torch.int8)
            weight.copy_(kept.double() * scale)
            there[name] = kept.cuda().float() * scale
        right = encoder(words)
        encoder = encoder.float().cuda()
        for name, weight in encoder.named_parameters():
            weight.copy_(there[name])
        near("text encoder", encoder(words.float().cuda()), right)
else:
    # A linear layer whose weights are bytes with a scale for each row, as quantized models have them.
    weight = torch.randint(-127, 128, (64, 128), dtype=torch.int8)
    scale = torch.rand(64) + 0.5
    x, tx = drawn(32, 128)
    right = x @ (weight.double() * scale.double()[:, None]).t()
    there = weight.cuda().float() * scale.cuda()[:, None]
    near("weights of bytes", F.linear(tx, there), right, absolute=0.1)
    a = torch.randint(-128, 128, (32, 128), dtype=torch.int8)
    exact = a.long() @ weight.long().t()
    rocrepro.equal("product of bytes", torch._int_mm(a.cuda(), weight.t().cuda()).cpu(), exact)
rocrepro.done()
