#!/usr/bin/env python3
"""Kernels and buckets that `fuse` finds, beside DDP's buckets: simulated, and trained on ranks.

usage: fused_training.py BIN_DIR [--ranks 2] [--on-ranks COMMAND] [--steps 12] [--rounds 3] [--model TEXT]...
                         [--estimator FILE] [--keep DIR]

BIN_DIR has calibrate, fuse and train. Ranks are threads of this machine, or processes that COMMAND starts
(slow_network.sh has one). `calibrate` measures machine and network, `fuse --cost measured:cpu` times operators,
has the estimator say what kernels take, and searches; then three things are trained in turn: what was found, DDP's buckets of 25 MB at the same grain of primitive
operators, and the same buckets as `train` runs a plan by itself, with kernels of its own for layer norms and softmaxes.
Errors are of simulated against measured medians. Exit code 1 where what was found is simulated more than 10% off."""
import json, statistics, sys

from support.ranks import arguments, prepared, run

MODELS = [
    "zoo:vgg19?batch=1",
    "zoo:resnet50?image=64&batch=4&hidden=32",
    "zoo:transformer?layers=2&hidden=128&heads=4&seq=32&vocab=1000&batch=4",
    "zoo:rnnlm?layers=2&hidden=256&seq=8&vocab=1000&batch=8",
    "zoo:bert?layers=2&hidden=128&heads=4&seq=32&vocab=1000&batch=4",
    "zoo:reformer?layers=2&hidden=128&heads=4&seq=128&vocab=1000&batch=2",
]
MOST = 0.10
ESTIMATOR = "examples/data/kernel_estimator.bin"


def main():
    a = arguments(__doc__, 12, ("--estimator", {"default": ESTIMATOR}))
    folder, started, machine = prepared(a)
    worst = 0
    print("| model | found: measured, ms | simulated | error | DDP: measured, ms | simulated | DDP, own kernels: "
          "measured, ms | speed-up | over own kernels |")
    print("|---" * 9 + "|")
    for number, model in enumerate(a.model or MODELS):
        own = f"{folder}/{number}"
        simulated = {}
        for name, strategy in [("found", "disco"), ("ddp", "ddp")]:
            run(f"{a.bin}/fuse", model, "--machine", machine, "--cost", "measured:cpu", "--backend-threads", "1",
                "--timings", f"{own}_timings", "--budget", "5s", "--seed", "1", "--reductions", "curve", "--estimator", a.estimator,
                "--strategy", strategy, "--out", f"{own}/{name}", "--json", f"{own}_{name}.json")
            strategies = json.load(open(f"{own}_{name}.json"))["strategies"]
            simulated[name] = [s["iteration_s"] for s in strategies if s["name"] == strategy][0]

        def train(name, *more):
            report = f"{own}_{name}_run.json"
            folder_of = "ddp" if name == "own" else name
            run(*started, f"{a.bin}/train", f"{own}/{folder_of}/plan.json", "--backend", "cpu", "--steps", str(a.steps),
                "--rate", "1e-6", "--json", report, *(["--ranks", str(a.ranks)] if not a.on_ranks else []),
                *([] if name == "own" else ["--fusion", f"{own}/{name}/fusion.json"]))
            return json.load(open(report))["measured_iteration_s"]

        times = {n: [] for n in ["found", "ddp", "own"]}
        for _ in range(a.rounds):
            for n in times:
                times[n].append(train(n))
        measured = {n: statistics.median(t) for n, t in times.items()}
        error = simulated["found"] / measured["found"] - 1
        worst = max(worst, abs(error))
        print(f"| `{model}` | {measured['found'] * 1e3:.2f} | {simulated['found'] * 1e3:.2f} | {100 * error:+.1f}% | "
              f"{measured['ddp'] * 1e3:.2f} | {simulated['ddp'] * 1e3:.2f} | {measured['own'] * 1e3:.2f} | "
              f"{measured['ddp'] / measured['found']:.3f} | {measured['own'] / measured['found']:.3f} |", flush=True)
    print(f"what was found is simulated {100 * worst:.1f}% off at most")
    return worst > MOST


sys.exit(main())
