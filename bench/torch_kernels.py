"""Times of PyTorch's kernels on the local GPU, at the sizes of ../shared/data/kernels, in its columns and one more.

    python3 bench/torch_kernels.py sizes ../shared/data/kernels --count 200 > sizes.csv     (anywhere)
    python3 bench/torch_kernels.py measure sizes.csv --seconds 90 > kernels.csv             (needs a GPU)

A row is operator, element, latency_ms, kernel_ms, grid, block, kernel, sizes. latency_ms: between two events around one
call, mean of the 5 middle ones of 25, as in the data; kernel_ms: the profiler's sum over kernels, 0 if it has none.
Operators of the data run in float32 without TF32; fused ones (attention, bias with gelu, softmax with mask) and
products also in bfloat16. Operators alternate, so a budget of seconds shortens all of them equally.
"""
import argparse
import csv
import gzip
import itertools
import json
import math
import os
import pathlib
import random
import sys
import tempfile
import time

# Typical sizes of models that the data lacks: batch x heads, tokens, width of a head; rows, columns.
ATTENTIONS = [(b, s, d) for b in (8, 32, 96, 256) for s in (128, 512, 1024, 2048, 4096) for d in (64, 128)]
ROWS = [(r, c) for r in (512, 2048, 8192, 32768) for c in (128, 512, 1024, 2048, 4096, 12288)]
PRODUCTS = [(b, m, n, k) for b in (1,) for m in (512, 2048, 8192, 16384) for n in (1024, 4096, 12288)
            for k in (1024, 4096, 12288)]


def sizes(arguments):
    """Prints random rows of the data: operator, element, sizes."""
    draw = random.Random(arguments.seed)
    chosen = {}
    for path in sorted(pathlib.Path(arguments.folder).glob("*.csv.gz")):
        with gzip.open(path, "rt") as text:
            rows = {tuple(r[5:]) for r in itertools.islice(csv.reader(text), 1, None)}
        name = path.name.removesuffix(".csv.gz")
        count = arguments.count * (2 if name in ("bmm", "linear", "conv") else 1)
        chosen[name, "float32"] = draw.sample(sorted(rows), min(count, len(rows)))
    for name in ("bmm", "linear"):
        chosen[name, "bfloat16"] = chosen[name, "float32"][:arguments.count]
    chosen["linear", "bfloat16"] += PRODUCTS
    for element in ("float32", "bfloat16"):
        for name in ("attention", "causal_attention", "attention_gradient"):
            chosen[name, element] = ATTENTIONS
        for name in ("bias_gelu", "masked_softmax", "layer_norm_gradient"):
            chosen[name, element] = ROWS
        for name in ("ln", "softmax", "gelu", "add"):
            chosen[name, element] = chosen.get((name, element), []) + ROWS
    turns = itertools.zip_longest(*([(*key, " ".join(map(str, r))) for r in rows] for key, rows in chosen.items()))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["operator", "element", "sizes"])
    writer.writerows(r for turn in turns for r in turn if r)


def call(torch, name, element, n):
    """A function of no arguments that runs the operator once."""
    f = torch.nn.functional

    def tensor(*shape, **named):
        return torch.randn(*shape, device="cuda", dtype=getattr(torch, element), **named)

    if name == "bmm":
        x, y = tensor(n[0], n[1], n[3]), tensor(n[0], n[3], n[2])
        return lambda: torch.bmm(x, y)
    if name == "linear":
        x, w, b = tensor(n[0], n[1], n[3]), tensor(n[2], n[3]), tensor(n[2])
        return lambda: f.linear(x, w, b)
    if name == "conv":
        batch, inner, outer, kernel, size, stride, padding = n
        x, w = tensor(batch, inner, size, size), tensor(outer, inner, kernel, kernel)
        return lambda: f.conv2d(x, w, stride=stride, padding=padding)
    if "attention" in name:
        grad = name == "attention_gradient"
        q, k, v = (tensor(1, *n, requires_grad=grad) for _ in range(3))
        if grad:
            out = f.scaled_dot_product_attention(q, k, v)
            seed = tensor(*out.shape)
            return lambda: torch.autograd.grad(out, (q, k, v), seed, retain_graph=True)
        return lambda: f.scaled_dot_product_attention(q, k, v, is_causal=name == "causal_attention")
    x, y = tensor(*n), tensor(*n).abs()
    row, other = tensor(n[1]), tensor(n[1])
    if name == "bias_gelu":
        return lambda: f.gelu(x + row)
    if name == "masked_softmax":
        mask = torch.rand(*n, device="cuda") < 0.1
        return lambda: torch.softmax(x.masked_fill(mask, -1e4), -1)
    if name == "layer_norm_gradient":
        x = x.requires_grad_()
        w, b = row.requires_grad_(), other.requires_grad_()
        out = f.layer_norm(x, (n[1],), w, b)
        return lambda: torch.autograd.grad(out, (x, w, b), y, retain_graph=True)
    return {
        "ln": lambda: f.layer_norm(x, (n[1],), row, other), "softmax": lambda: torch.softmax(x, -1),
        "relu": lambda: f.relu(x), "gelu": lambda: f.gelu(x), "tanh": lambda: torch.tanh(x),
        "add": lambda: x + y, "mul": lambda: x * y, "div": lambda: x / y, "pow": lambda: torch.pow(y, x),
        "addu": lambda: x + 1.5, "mulu": lambda: x * 1.5, "divu": lambda: x / 1.5, "powu": lambda: torch.pow(y, 2.5),
    }[name]


def latency_ms(torch, run):
    for _ in range(3):
        run()
    times = []
    for _ in range(25):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return sum(sorted(times)[10:15]) / 5


def kernels(torch, runs):
    """By function, its kernels as (name, ms, grid, block); spinning kernels of one block separate the functions."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as p:
        for run in runs:
            torch.cuda._sleep(1000)
            run()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        p.export_chrome_trace(path)
        with open(path, encoding="utf-8") as text:
            events = [e for e in json.load(text)["traceEvents"] if e.get("cat") == "kernel"]
    found = []
    for e in sorted(events, key=lambda e: e["ts"]):
        if "spin_kernel" in e["name"]:
            found.append([])
        elif found:
            grid, block = (e["args"].get(k, [0]) for k in ("grid", "block"))
            found[-1].append((e["name"], e["dur"] / 1000, math.prod(grid), math.prod(block)))
    return found


def measure(arguments):
    import torch
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    with open(arguments.sizes, encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    device = torch.cuda.get_device_name().replace(" ", "-").removeprefix("NVIDIA-")
    writer.writerow(["device", "operator", "element", "latency_ms", "kernel_ms", "grid", "block", "kernel", "sizes"])
    start = time.monotonic()
    for batch in range(0, len(rows), 32):
        if time.monotonic() - start > arguments.seconds:
            break
        known, runs, refused = [], [], 0
        for r in rows[batch:batch + 32]:
            n = [int(x) for x in r["sizes"].split()]
            try:
                run = call(torch, r["operator"], r["element"], n)
                known.append((r, latency_ms(torch, run)))
                runs.append(run)
            except (torch.OutOfMemoryError, RuntimeError) as e:
                refused += 1
                print(f"{r['operator']} {r['sizes']}: {str(e).splitlines()[0]}", file=sys.stderr)
        try:
            found = kernels(torch, runs)
        except (RuntimeError, KeyError, OSError) as e:
            print(f"no profile: {e}", file=sys.stderr)
            found = []
        found = found if len(found) == len(runs) else [[] for _ in runs]
        for (r, ms), ks in zip(known, found):
            longest = max(ks, key=lambda k: k[1], default=("", 0, 0, 0))
            writer.writerow([device, r["operator"], r["element"], f"{ms:.6g}", f"{sum(k[1] for k in ks):.6g}",
                             *longest[2:], longest[0][:40], r["sizes"]])
        sys.stdout.flush()
        del runs
        torch.cuda.empty_cache()


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
commands = parser.add_subparsers(required=True)
c = commands.add_parser("sizes", help="draw sizes from the data")
c.add_argument("folder")
c.add_argument("--count", type=int, default=200, help="sizes an operator; twice as many of products, convolutions")
c.add_argument("--seed", type=int, default=1)
c.set_defaults(run=sizes)
c = commands.add_parser("measure", help="measure them")
c.add_argument("sizes")
c.add_argument("--seconds", type=float, default=90)
c.set_defaults(run=measure)
chosen = parser.parse_args()
chosen.run(chosen)
