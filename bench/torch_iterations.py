#!/usr/bin/env python3
"""Times of training GPT with PyTorch on the local GPU, as rows that published_iterations.py compares with `simulate`.

    python3 bench/torch_iterations.py --seconds 300 > iterations.csv     (needs a GPU)
    bench/published_iterations.py PATH/TO/simulate --cost kernels --rows iterations.csv

One device runs the statement `megatron:t=1,p=1,d=1`: weights are bfloat16; the gradients of each micro-batch are added
to float32 gradients; then come their norm, clipping, Adam on float32 weights, and the copy back. Dropouts are where
Megatron-LM has them. `compiled`: torch.compile fuses each layer's element-wise operators, as Megatron-LM's kernels do;
the attention core remains products and a softmax, never one kernel, which is checked for each row. A row is a size and
a plan with the median, minimum and maximum seconds of --repeats iterations, and the peak bytes of tensors.
"""
import argparse
import csv
import statistics
import subprocess
import sys
import time

VOCABULARY = 51200
# layers, hidden, heads, tokens, samples of a micro-batch, micro-batches, recomputation
ROWS = [(8, 4096, 32, 2048, 1, 8, "none"), (8, 4096, 32, 2048, 2, 4, "none"), (8, 4096, 32, 2048, 2, 4, "full"),
        (3, 8192, 64, 2048, 1, 8, "none"), (3, 8192, 64, 2048, 1, 8, "full"), (4, 5120, 40, 2048, 2, 4, "none"),
        (24, 2048, 16, 1024, 4, 4, "none"), (24, 2048, 16, 1024, 4, 4, "full"), (24, 2048, 16, 1024, 8, 2, "full"),
        (12, 2048, 16, 2048, 2, 4, "none"), (12, 2048, 16, 2048, 4, 4, "full"), (24, 1024, 16, 1024, 8, 2, "none"),
        (24, 1024, 16, 1024, 16, 1, "full"), (12, 768, 12, 1024, 16, 2, "none"), (12, 1024, 16, 512, 32, 2, "none"),
        (12, 1024, 16, 2048, 4, 4, "none"), (24, 2048, 16, 1024, 2, 8, "none"), (24, 1024, 16, 1024, 4, 4, "none")]
TINY = [(2, 64, 4, 32, 2, 2, "none"), (2, 64, 4, 32, 2, 2, "full")]


def classes(torch):
    """The layers. Imports torch late, so that --help works without it."""
    f = torch.nn.functional
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self, hidden, heads):
            super().__init__()
            self.heads = heads
            self.norm_1, self.norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden, bias=False)
            self.fc1, self.fc2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden, bias=False)
            self.bias_1, self.bias_2 = (nn.Parameter(torch.zeros(hidden)) for _ in range(2))

        def forward(self, x, mask):
            b, s, h = x.shape
            q, k, v = (p.reshape(b, s, self.heads, -1).transpose(1, 2).reshape(b * self.heads, s, -1)
                       for p in self.qkv(self.norm_1(x)).chunk(3, -1))
            scores = torch.bmm(q, k.transpose(1, 2)) * (h // self.heads) ** -0.5
            weights = f.dropout(torch.softmax(scores.masked_fill(mask, -1e4), -1), 0.1)
            core = torch.bmm(weights, v).reshape(b, self.heads, s, -1).transpose(1, 2).reshape(b, s, h)
            x = x + f.dropout(self.proj(core) + self.bias_1, 0.1)
            inner = f.gelu(self.fc1(self.norm_2(x)), approximate="tanh")
            return x + f.dropout(self.fc2(inner) + self.bias_2, 0.1)

    class Gpt(nn.Module):
        def __init__(self, layers, hidden, heads, tokens, recompute, is_compiled):
            super().__init__()
            self.words, self.places = nn.Embedding(VOCABULARY, hidden), nn.Embedding(tokens, hidden)
            self.layers = nn.ModuleList(Layer(hidden, heads) for _ in range(layers))
            self.norm = nn.LayerNorm(hidden)
            self.recompute = recompute
            self.run = torch.compile(lambda layer, x, mask: layer(x, mask), dynamic=False) if is_compiled else (
                lambda layer, x, mask: layer(x, mask))
            self.loss = torch.compile(self.plain_loss, dynamic=False) if is_compiled else self.plain_loss

        def plain_loss(self, logits, target):
            return f.cross_entropy(logits.float().flatten(0, 1), target.flatten())

        def forward(self, ids, target, mask):
            x = f.dropout(self.words(ids) + self.places.weight[: ids.shape[1]], 0.1)
            for layer in self.layers:
                if self.recompute:
                    x = torch.utils.checkpoint.checkpoint(self.run, layer, x, mask, use_reentrant=False)
                else:
                    x = self.run(layer, x, mask)
            return self.loss(f.linear(self.norm(x), self.words.weight), target)

    return Gpt


def measured(torch, gpt, row, arguments, device):
    """Seconds of each iteration, and the peak bytes."""
    layers, hidden, heads, tokens, micro, count, recompute = row
    torch.manual_seed(1)
    model = gpt(layers, hidden, heads, tokens, recompute == "full", arguments.way == "compiled")
    model = model.to(device=device, dtype=torch.bfloat16)
    short = list(model.parameters())
    wide = [p.detach().float() for p in short]
    sums = [torch.zeros_like(p) for p in wide]
    for p, g in zip(wide, sums):
        p.grad = g
    adam = torch.optim.AdamW(wide, lr=1e-4, fused=device == "cuda")

    def accumulate(p):
        sums[index[p]].add_(p.grad)
        p.grad = None

    index = {p: i for i, p in enumerate(short)}
    for p in short:
        p.register_post_accumulate_grad_hook(accumulate)
    mask = torch.ones(tokens, tokens, dtype=torch.bool, device=device).triu(1)
    ids = torch.randint(VOCABULARY, (micro, tokens), device=device)

    def iteration():
        for _ in range(count):
            (model(ids, ids, mask) / count).backward()
        torch.nn.utils.clip_grad_norm_(wide, 1.0)
        adam.step()
        with torch.no_grad():
            torch._foreach_copy_(short, wide)
        torch._foreach_zero_(sums)

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        iteration()
    wait()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(arguments.repeats):
        begin = time.perf_counter()
        iteration()
        wait()
        times.append(time.perf_counter() - begin)
    return times, torch.cuda.max_memory_allocated() if device == "cuda" else 0


def measure_row(torch, row, arguments):
    """The row as a list of cells. Exits with a one-line reason if there is none."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not arguments.tiny:
        sys.exit("torch_iterations: no GPU here; expected one, or --tiny")
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    layers, hidden, heads, tokens, micro, count, recompute = row
    try:
        times, most = measured(torch, classes(torch), row, arguments, device)
    except torch.OutOfMemoryError as e:
        sys.exit(f"{row}: {str(e).splitlines()[0]}")
    if torch._dynamo.utils.counters["inductor"]["fuse_attention"]:
        sys.exit(f"{row}: attention was fused into one kernel, which the plan does not say")
    plan = f"megatron:t=1,p=1,d=1,micro={micro},batch={micro * count}" + (
        ",recompute=full" if recompute == "full" else "")
    parameters = (12 * layers * hidden * hidden + (VOCABULARY + tokens) * hidden) * 1e-9
    return [f"PyTorch {torch.__version__} on {name}, {arguments.way}", f"{parameters:.2f}B", layers, hidden, heads,
            tokens, VOCABULARY, 1, plan, f"{statistics.median(times):.5f}", f"{min(times):.5f}", f"{max(times):.5f}",
            most, arguments.machine, "no", ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300, help="begin no row after that many")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--way", choices=("compiled", "eager"), default="compiled")
    parser.add_argument("--machine", default="dgx_h100:1x1", help="what simulate calls the machine")
    parser.add_argument("--tiny", action="store_true", help="two small rows, also without a GPU, to try the script")
    parser.add_argument("--row", type=int, help="only this one, in this process")
    arguments = parser.parse_args()
    rows = TINY if arguments.tiny else ROWS
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if arguments.row is not None:
        import torch
        import torch.utils.checkpoint
        writer.writerow(measure_row(torch, rows[arguments.row], arguments))
        return
    writer.writerow(["source", "model", "layers", "hidden", "heads", "seq", "vocab", "gpus", "plan", "iteration_s",
                     "least_s", "most_s", "memory_peak_bytes", "machine", "derived", "assumed"])
    sys.stdout.flush()
    start = time.monotonic()
    for i, row in enumerate(rows):
        if time.monotonic() - start > arguments.seconds:
            print(f"not begun: {row}", file=sys.stderr)
            continue
        # One process per row, because compiled code keeps its model's memory. A process that fails prints why.
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--row", str(i)], check=False)
        print(f"{time.monotonic() - start:.0f} s: {row}", file=sys.stderr)


if __name__ == "__main__":
    main()
