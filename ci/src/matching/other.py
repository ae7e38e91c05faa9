"""PyTorch programs that hit no known bug of ROCm: `other.py NUMBER`. The number selects a template and its parameters.

The first line of the output says how the program must end: `success`, `failure`, or `hang`.
"""
import ctypes
import os
import random
import sys
import threading
import time

import torch

hip = ctypes.CDLL("libamdhip64.so.7")
number = int(sys.argv[1])
draw = random.Random(number)
torch.manual_seed(number)


def pointer(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def capture(work, stream=None):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = work()
    return graph, result


def trains():
    width, steps = draw.choice([8, 32, 100]), draw.randint(2, 6)
    layers = [torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width), torch.nn.Linear(width, 1)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = draw.choice([torch.optim.AdamW, torch.optim.SGD])(model.parameters(), lr=0.01)
    x = torch.randn(draw.randint(4, 64), width, device="cuda")
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    assert torch.isfinite(model(x)).all()


def attends():
    heads, length, width = draw.randint(1, 4), draw.randint(3, 40), draw.choice([8, 16])
    q, k, v = (torch.randn(2, heads, length, width, device="cuda") for _ in range(3))
    got = (q @ k.transpose(-1, -2) / width**0.5).softmax(-1) @ v
    right = (q.cpu() @ k.cpu().transpose(-1, -2) / width**0.5).softmax(-1) @ v.cpu()
    torch.testing.assert_close(got.cpu(), right, rtol=1e-4, atol=1e-4)


def replays_a_graph():
    x, by = torch.ones(draw.randint(1, 5000), device="cuda"), draw.randint(2, 9)
    graph, y = capture(lambda: x * by + 1)
    for value in range(draw.randint(1, 5)):
        x.fill_(value)
        graph.replay()
        assert y.sum().item() == x.numel() * (value * by + 1)


def replays_a_forked_graph():
    x, side = torch.ones(draw.randint(1, 5000), device="cuda"), torch.cuda.Stream()

    def work():
        y = x + 1
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            z = x * 2
        torch.cuda.current_stream().wait_stream(side)
        return y + z

    graph, y = capture(work)
    graph.replay()
    torch.cuda.synchronize()
    assert y.sum().item() == 4 * x.numel()


def uses_streams_and_events():
    streams = [torch.cuda.Stream(priority=draw.choice([0, -1])) for _ in range(draw.randint(2, 5))]
    x = torch.zeros(256, device="cuda")
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    for stream in streams:
        stream.wait_event(event)
        with torch.cuda.stream(stream):
            x += 1
            event = torch.cuda.Event(enable_timing=True)
            event.record()
    event.synchronize()
    assert x.sum().item() == 256 * len(streams)


def copies_pinned_memory():
    for _ in range(draw.randint(1, 8)):
        x = torch.randint(0, 100, (draw.randint(1, 4000),)).pin_memory()
        there = x.to("cuda", non_blocking=True)
        torch.cuda.current_stream().synchronize()
        assert torch.equal(there.cpu(), x) and not torch.ones(3).is_pinned()


def fills_and_empties_the_cache():
    for _ in range(draw.randint(2, 6)):
        kept = [torch.empty(draw.randint(1, 1 << 22), device="cuda") for _ in range(draw.randint(1, 6))]
        kept.clear()
        torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == 0


def makes_a_graphed_callable():
    width = draw.choice([4, 16])
    layer = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU()).cuda()
    x = torch.randn(8, width, device="cuda", requires_grad=True)
    expected = layer(x).sum().item()
    graphed = torch.cuda.make_graphed_callables(layer, (torch.randn_like(x).requires_grad_(),))
    graphed(x).sum().backward()
    assert abs(graphed(x).sum().item() - expected) < 1e-3


def sorts_and_selects():
    x = torch.randperm(draw.randint(2, 3000), device="cuda")
    assert torch.equal(x.sort().values.cpu(), torch.arange(x.numel()))
    assert x[x > 3].numel() == max(0, x.numel() - 4)
    assert x.cumsum(0)[-1].item() == x.numel() * (x.numel() - 1) // 2


def loads_data_in_workers():
    data = torch.utils.data.TensorDataset(torch.arange(draw.randint(8, 40)))
    loader = torch.utils.data.DataLoader(data, 4, num_workers=2, pin_memory=True)
    assert sum(int(batch.cuda().sum()) for (batch,) in loader) == sum(range(len(data)))


def captures_a_few_thousand_kernels():
    x, steps = torch.zeros(16, device="cuda"), draw.randint(500, 3000)
    x.add_(1)

    def work():
        for _ in range(steps):
            x.add_(1)

    graph, _ = capture(work)
    x.zero_()
    graph.replay()
    assert x.sum().item() == 16 * steps


def calls_hip_rightly():
    x, stream = torch.ones(512, dtype=torch.uint8, device="cuda"), torch.cuda.Stream()
    handle, block = ctypes.c_void_p(stream.cuda_stream), ctypes.c_void_p()
    torch.cuda.synchronize()
    assert hip.hipMemsetAsync(pointer(x), 0, ctypes.c_size_t(0), handle) == 0
    assert hip.hipMallocAsync(ctypes.byref(block), ctypes.c_size_t(4096), handle) == 0
    assert hip.hipMemsetAsync(block, 3, ctypes.c_size_t(512), handle) == 0
    assert hip.hipMemcpyAsync(pointer(x), block, ctypes.c_size_t(512), 3, handle) == 0
    assert hip.hipFreeAsync(block, handle) == 0
    stream.synchronize()
    assert int(x.sum()) == 3 * 512


def multiplies_wrong_shapes():
    a, b = draw.randint(2, 9), draw.randint(10, 20)
    torch.ones(a, b, device="cuda") @ torch.ones(a, b, device="cuda")


def indexes_out_of_range():
    table, index = torch.ones(draw.randint(4, 20), 8, device="cuda"), torch.tensor([1, 100 + number], device="cuda")
    assert int(index.max()) < table.shape[0], "the index is out of range"
    table[index].sum().item()


def runs_out_of_memory():
    kept = []
    while True:
        kept.append(torch.empty(draw.randint(100, 400) << 20, dtype=torch.uint8, device="cuda"))


def runs_out_of_memory_beside_a_pool():
    free, _ = torch.cuda.mem_get_info()
    block, handle = ctypes.c_void_p(), ctypes.c_void_p(torch.cuda.Stream().cuda_stream)
    assert hip.hipMallocAsync(ctypes.byref(block), ctypes.c_size_t(free // draw.randint(2, 4)), handle) == 0
    torch.empty(free - (1 << 20), dtype=torch.uint8, device="cuda")


def reads_in_a_capture():
    x = torch.ones(draw.randint(2, 999), device="cuda")
    read = draw.choice([lambda y: y.sum().item(), lambda y: y.cpu(), lambda y: y.nonzero(), lambda y: print(y)])
    capture(lambda: read(x * 2))


def leaves_the_stream_of_a_refused_capture():
    x = torch.ones(draw.randint(2, 999), device="cuda")
    try:
        capture(lambda: (x * 2).sum().item(), torch.cuda.Stream())
    except RuntimeError:
        torch.cuda.set_stream(torch.cuda.default_stream())
    assert (x + 1).sum().item() == x.numel(), "a wrong expectation"


def does_not_join():
    x, side = torch.ones(draw.randint(2, 999), device="cuda"), torch.cuda.Stream()

    def work():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            return x * 2

    capture(work)


def captures_twice_after_a_refusal():
    # PyTorch's allocator keeps the first capture as underway. No call of HIP is made in the stream again.
    x = torch.ones(draw.randint(2, 999), device="cuda")
    for _ in range(2):
        try:
            capture(lambda: (x * 2).sum().item())
        except RuntimeError as error:
            print(str(error).splitlines()[0])
            torch.cuda.set_stream(torch.cuda.default_stream())
    raise RuntimeError("no graph")


def exits_with_a_status():
    print(torch.ones(3, device="cuda").sum().item(), flush=True)
    draw.choice([sys.exit, os._exit])(draw.randint(1, 100))


def expects_wrong_numbers():
    x = torch.arange(draw.randint(10, 1000), dtype=torch.float32, device="cuda")
    torch.testing.assert_close(x.softmax(0).sum().cpu(), torch.tensor(1.5))


def raises():
    x = {"loss": torch.ones(4, device="cuda")}
    wrong = [lambda: x["los"], lambda: x["loss"] + "a", lambda: x["loss"].los(), lambda: torch.ones(2) + x["loss"]]
    draw.choice(wrong)()


def mixes_autograd():
    x = torch.ones(4, device="cuda", requires_grad=True)
    y = x.exp()
    if draw.random() < 0.5:
        y.add_(1)
        y.sum().backward()
    else:
        y.sum().backward()
        y.sum().backward()


def calls_hip_wrongly():
    x, null, result = torch.ones(64, device="cuda"), ctypes.c_void_p(), ctypes.c_void_p()
    wrong = [
        lambda: hip.hipMemcpy(pointer(x), null, ctypes.c_size_t(64), 1),
        lambda: hip.hipMemcpy(pointer(x), pointer(x), ctypes.c_size_t(64), 77),
        lambda: hip.hipGraphInstantiate(ctypes.byref(result), null, None, None, ctypes.c_size_t(0)),
        lambda: hip.hipGraphLaunch(null, null),
        lambda: hip.hipEventRecord(null, null),
        lambda: hip.hipMemSetAccess(pointer(x), ctypes.c_size_t(4096), ctypes.byref(result), ctypes.c_size_t(1)),
        lambda: hip.hipSetDevice(7),
    ]
    statuses = [call() for call in draw.sample(wrong, 4)]
    assert not any(statuses), statuses


def updates_to_another_graph():
    rows, graphs = torch.ones(8, 512, dtype=torch.uint8, device="cuda"), []
    stream = ctypes.c_void_p(torch.cuda.Stream().cuda_stream)
    for count in 1, draw.randint(2, 4):
        graph = ctypes.c_void_p()
        assert hip.hipStreamBeginCapture(stream, 2) == 0
        for value in range(count):
            assert hip.hipMemsetAsync(pointer(rows), value, ctypes.c_size_t(512), stream) == 0
        assert hip.hipStreamEndCapture(stream, ctypes.byref(graph)) == 0
        graphs.append(graph)
    executable, node, result = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    assert hip.hipGraphInstantiate(ctypes.byref(executable), graphs[0], None, None, ctypes.c_size_t(0)) == 0
    assert hip.hipGraphExecUpdate(executable, graphs[1], ctypes.byref(node), ctypes.byref(result)) == 0


def crashes_by_itself():
    x = torch.ones(8, device="cuda")
    x.sum().item()
    draw.choice([lambda: ctypes.string_at(8), os.abort, lambda: os.kill(os.getpid(), 15)])()


def crashes_in_a_thread_during_a_call():
    x = torch.ones(1 << 16, device="cuda")
    threading.Thread(target=lambda: (time.sleep(0.05), ctypes.string_at(8))).start()
    while True:
        x = (x * 1.0001).cumsum(0) / 2
        torch.cuda.synchronize()


def locks_itself_out():
    lock, begun = threading.Lock(), threading.Event()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def waits(_):
        begun.set()
        with lock:
            pass

    stream = torch.cuda.Stream()
    with lock:
        hip.hipLaunchHostFunc(ctypes.c_void_p(stream.cuda_stream), waits, None)
        begun.wait()
        stream.synchronize()


def never_ends():
    x = torch.zeros(1, device="cuda")
    while x.item() < 1:
        time.sleep(0.2)


SUCCESS = [trains, attends, replays_a_graph, replays_a_forked_graph, uses_streams_and_events, copies_pinned_memory,
           fills_and_empties_the_cache, makes_a_graphed_callable, sorts_and_selects, loads_data_in_workers,
           captures_a_few_thousand_kernels, calls_hip_rightly]
HANG = [locks_itself_out, never_ends]
FAILURE = [multiplies_wrong_shapes, indexes_out_of_range, runs_out_of_memory, runs_out_of_memory_beside_a_pool,
           reads_in_a_capture, leaves_the_stream_of_a_refused_capture, does_not_join, captures_twice_after_a_refusal,
           exits_with_a_status, expects_wrong_numbers, raises, mixes_autograd, calls_hip_wrongly,
           updates_to_another_graph, crashes_by_itself, crashes_in_a_thread_during_a_call]

if __name__ == "__main__":
    templates = SUCCESS + FAILURE + HANG
    template = templates[number % len(templates)]
    ending = "success" if template in SUCCESS else "hang" if template in HANG else "failure"
    print(ending, template.__name__, flush=True)
    template()
