"""Runs the PyTorch programs of the library on an NVIDIA GPU, which tells a framework's contract from what ROCm does.

    python3 reports/data/pytorch-on-nvidia.py run OUT.jsonl      # every program with all of its parameters
    python3 reports/data/pytorch-on-nvidia.py plant OUT.jsonl    # with a mistake in each: a check or an exception must tell
    python3 reports/data/pytorch-on-nvidia.py times OUT.jsonl    # what two claims say about time

In the root of the checkout. Needs torch, triton, accelerate and PyYAML.
"""

import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "cases" / "programs"
LIMIT = 170

# Program, parameters, what is there, and the mistake in its place.
PLANTED = [
    ("copies", {"shape": "16x1x64x64", "way": "to"}, 'sent.to("cuda")', 'torch.zeros_like(sent, device="cuda")'),
    ("copies", {"shape": "4x4", "way": "pinned"}, "twice = there * 2 + 1", "twice = there * 2"),
    ("copies", {"shape": "4x4", "way": "copy"}, "into.copy_(there, non_blocking=True)", "pass"),
    ("dataloader", {"workers": "2", "pin": "yes"}, 'moved = batch[key].to("cuda", non_blocking=pin)',
     'moved = torch.zeros_like(batch[key], device="cuda")'),
    ("accelerate", {"placement": "no"}, "device_placement=[placed]", "device_placement=[True]"),
    ("accelerate", {"placement": "yes"}, "of(batch), torch", "of(batch) * 0, torch"),
    ("output-overwritten", {"how": "kept"}, "compiled = torch.compile(double, mode=mode)", "compiled = double"),
    ("output-overwritten", {"how": "clone"}, "compiled(x).clone() for", "compiled(x) * 0 for"),
    ("output-overwritten", {"how": "mark-once"}, "outputs = [compiled(x) for x",
     "outputs = [(mark(), compiled(x))[1] for x"),
    ("compile-training", {"mode": "default", "loss": "inside", "mark": "never"}, "weight -= rate * weight.grad",
     "weight -= (rate if weight.is_cuda else 0.4) * weight.grad"),
    ("inductor-settings", {"setting": "all"}, '"aggressive_fusion": True', '"no_such_name": True'),
    ("inductor-settings", {"setting": "none"}, 'options["mode"] = "default"', "pass"),
    ("products", {"type": "bf16", "library": "cublaslt"}, "torch.bmm(tq, tv), torch", "torch.bmm(tq, tv * 0), torch"),
    ("products", {"type": "f32", "library": "cublas"}, "there.double()", "there.half().double()"),
    ("library-calls", {"call": "attention", "cache": "no"}, "tq.to(kind), tk", "tq.to(kind) * 2, tk"),
    ("library-calls", {"call": "bytes", "cache": "yes"}, "a.cuda(), weight", "a.cuda() + 1, weight"),
    ("calls-in-capture", {"call": "item"}, "lambda: x.sum().item()", "lambda: x.sum()"),
    ("calls-in-capture", {"call": "nothing"}, "lambda: None", "lambda: x.sum().item()"),
    ("calls-in-capture", {"call": "pinned-copy"}, "graph.replay()\n    rocrepro", "pass\n    rocrepro"),
    ("manual-capture", {"way": "compiled"}, "        graph.replay()\n        # The clone", "        # The clone"),
    ("manual-capture", {"way": "output-reused"}, "output, output.clone()", "output.clone(), output"),
    ("manual-capture", {"way": "shorter-input"}, "RuntimeError, static.copy_, short)", "RuntimeError, static.copy_, static)"),
    ("random-in-capture", {"what": "replays"}, "        graph.replay()\n        found", "        found"),
    ("random-in-capture", {"what": "replays"}, "    torch.cuda.manual_seed(42)\n    found", "    found"),
    ("random-in-capture", {"what": "patches"}, "compiled = torch.compile(lambda x: torch.sin(x) + 1)",
     "frames.preserve_global_state(lambda: None); compiled = torch.compile(lambda x: torch.sin(x) + 1)"),
    ("memory", {"setting": "default"}, "    torch.cuda.empty_cache()\nrocrepro.holds", "    pass\nrocrepro.holds"),
    ("memory", {"setting": "split-conf"}, "max_split_size_mb:256", "max_split_size_mb:128"),
    ("triton", {"block": "512"}, "tl.load(x + row * n + start + i, mask=start + i < n", "tl.load(x + start + i, mask=start + i < n"),
    ("triton", {"block": "64"}, "if WAY == 1:", "if WAY == 0:"),
]


def left_out(trial, excluded):
    """Whether an entry of `exclude` says all of what it names of this trial."""
    def among(value, one):
        return value in [str(each) for each in (one if isinstance(one, list) else [one])]

    return any(all(among(trial[axis], one) for axis, one in each.items()) for each in excluded)


def trials(name):
    case = yaml.safe_load((PROGRAMS / ("torch-%s.yaml" % name)).read_text())
    axes = case.get("matrix", {})
    for values in itertools.product(*axes.values()):
        trial = {axis: str(value) for axis, value in zip(axes, values)}
        if not left_out(trial, case.get("exclude", [])):
            yield trial


def run(name, parameters, file=None):
    """What one process of a program says."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "harness" / "cli" / "program"))
    environment.update({"ROCREPRO_PARAMETER_" + axis: value for axis, value in parameters.items()})
    with tempfile.TemporaryDirectory() as folder:
        said = pathlib.Path(folder) / "said"
        environment["ROCREPRO_REPORT"] = str(said)
        words = [sys.executable, str(file or PROGRAMS / ("torch-%s.py" % name))]
        begun = time.monotonic()
        try:
            ended = subprocess.run(words, env=environment, cwd=folder, text=True, capture_output=True, timeout=LIMIT)
            status, out, err = ended.returncode, ended.stdout, ended.stderr
        except subprocess.TimeoutExpired:
            status, out, err = "timeout", "", ""
        lines = [json.loads(line) for line in said.read_text().splitlines()] if said.exists() else []
    checks = [line for line in lines if line["say"] == "check"]
    wrong = [{"check": one["name"], "text": one["wrong"]["text"][:300]} for one in checks if one["wrong"]]
    raised = [line["name"] + ": " + line["text"][:300] for line in lines if line["say"] == "exception"]
    answer = {
        "program": "torch-" + name,
        "parameters": parameters,
        "checks": len(checks),
        "wrong": wrong,
        "exception": raised,
        "skipped": [line["why"] for line in lines if line["say"] == "skip"],
        "done": any(line["say"] == "done" for line in lines),
        "exit": status,
        "measured": [line[10:400] for line in out.splitlines() if line.startswith("measured: ")],
        "seconds": round(time.monotonic() - begun, 1),
    }
    if not answer["done"]:
        answer["stderr"] = err[-600:]
    return answer


def machine():
    import accelerate
    import torch
    import triton

    smi = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "card": subprocess.run(smi, text=True, capture_output=True).stdout.strip(),
        "torch": torch.__version__,
        "hip": torch.version.hip,
        "triton": triton.__version__,
        "accelerate": accelerate.__version__,
        "python": sys.version.split()[0],
    }


def planted(mistake):
    name, parameters, there, instead = mistake
    text = (PROGRAMS / ("torch-%s.py" % name)).read_text()
    if text.count(there) != 1:
        return {"program": "torch-" + name, "planted": instead, "noticed": False, "why": "it does not stand there once"}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / ("torch_%s.py" % name.replace("-", "_"))
        file.write_text(text.replace(there, instead))
        said = run(name, parameters, file)
    return {"planted": instead, "in place of": there, "noticed": bool(said["wrong"] or said["exception"]), **said}


def timed(function, before=lambda: None, calls=200, repeats=9):
    """Microseconds per call, of several series."""
    import torch

    series = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(calls):
            before()
            function()
        torch.cuda.synchronize()
        series.append((time.perf_counter() - begun) / calls * 1e6)
    low, middle, high = min(series), statistics.median(series), max(series)
    return {"median_us": round(middle, 1), "min_us": round(low, 1), "max_us": round(high, 1), "series": repeats, "calls": calls}


def times():
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = [nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 256), nn.GELU()) for _ in range(20)]
    model = nn.Sequential(*layers).cuda().eval()
    x = torch.randn(8, 256, device="cuda")
    with torch.no_grad():
        ways = {"eager": model}
        for mode in ("default", "reduce-overhead"):
            torch._dynamo.reset()
            ways[mode] = torch.compile(nn.Sequential(*layers), mode=mode)
            for _ in range(5):
                ways[mode](x)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            ways["default"](x)
        ways["default captured by hand"] = lambda x: graph.replay()
        for name, function in ways.items():
            yield {"time": "20 layers, " + name, **timed(lambda: function(x))}
        y = torch.zeros(16, device="cuda")
        stream = torch.cuda.current_stream()
        waits = {"torch.cuda.synchronize()": torch.cuda.synchronize, "current_stream().synchronize()": stream.synchronize}
        for name, wait in waits.items():
            yield {"time": "a kernel and " + name, **timed(lambda: (y.add_(1), wait()), calls=2000)}
        for name, wait in waits.items():
            yield {"time": name + " with nothing to wait for", **timed(wait, calls=5000)}


def main():
    what, out = sys.argv[1:]
    with open(out, "w") as file, ThreadPoolExecutor(10) as pool:
        def write(line):
            file.write(json.dumps(line).replace(str(ROOT) + "/", "") + "\n")
            file.flush()

        write({"machine": machine(), "what": what})
        if what == "times":
            found = times()
        elif what == "plant":
            found = pool.map(planted, PLANTED)
        else:
            only = os.environ.get("ONLY", "").split()
            names = sorted(path.stem[6:] for path in PROGRAMS.glob("torch-*.yaml"))
            all_trials = [(name, one) for name in names if not only or name in only for one in trials(name)]
            # What counts the memory of the whole card has it to itself.
            beside = [one for one in all_trials if one[0] not in ("memory",)]
            alone = [one for one in all_trials if one[0] in ("memory",)]
            found = itertools.chain(pool.map(lambda one: run(*one), beside), (run(*one) for one in alone))
        for line in found:
            write(line)
            if "time" in line:
                print(json.dumps(line), flush=True)
            else:
                bad = line.get("wrong") or line.get("exception") or not line.get("done")
                bad = not line["noticed"] if what == "plant" else bad
                print("BAD" if bad else "ok", line["program"], json.dumps(line.get("parameters")), line.get("checks"),
                      line.get("seconds"), line.get("measured"), line.get("why", ""), flush=True)
                for one in (line.get("wrong") or [])[:4 if what != "plant" else 1]:
                    print("    ", one["check"], "|", one["text"][:160], flush=True)
                if bad:
                    print("    ", line.get("exception"), (line.get("stderr") or "")[-300:], flush=True)


if __name__ == "__main__":
    main()
