#!/usr/bin/env python3
"""Buckets that `replay --optimize` finds from traces of ranks, compared with others: predicted and measured.

usage: found_buckets.py BIN_DIR [--ranks 2] [--on-ranks COMMAND] [--steps 12] [--rounds 3] [--model TEXT]...
                        [--keep DIR]

BIN_DIR has calibrate, parallelize, train and replay. Ranks are threads of this machine, or processes that COMMAND
starts (slow_network.sh has one). For each model: it traces some steps of data parallelism that reduces every
weight alone; `replay --optimize --passes tensor_fusion` finds buckets; then it trains the found plan, and one with
DDP's default buckets of 25 MB, alternately. The predicted speed-up is the replay's, the measured one that of medians.
Exit code 1 if the two differ by more than 10%."""
import json, statistics, sys

from support.ranks import arguments, prepared, run

MODELS = [
    "zoo:mlp?layers=8&hidden=256&batch=32",
    "zoo:bert_large?layers=2&hidden=128&heads=4&seq=32&vocab=1000&batch=4",
    "zoo:resnext50?form=ae&image=64&hidden=16&batch=8",
]
MOST = 0.10


def loss_of(model):
    return "mean_square" if "mlp" in model else "cross_entropy"


def main():
    a = arguments(__doc__, 12)
    folder, started, machine = prepared(a)
    worst = 0
    print("| model | weights, buckets | each alone, ms | replayed | found, ms | predicted | speed-up | predicted | "
          "25 MB, ms |")
    print("|---" * 9 + "|")
    for number, model in enumerate(a.model or MODELS):
        own = f"{folder}/{number}"
        planned = [f"{a.bin}/parallelize", model, "--machine", machine, "--search", "flexflow", "--budget", "0.1s",
                   "--random", "0"]
        run(*planned, "--plans", f"{own}/plans")
        run(*planned, "--sync", "bucket=25MB", "--plans", f"{own}/ddp")
        plans = {"alone": f"{own}/plans/data.json", "found": f"{own}/found.json", "ddp": f"{own}/ddp/data.json"}

        def train(name, *more):
            run(*started, f"{a.bin}/train", plans[name], "--backend", "cpu", "--steps", str(a.steps), "--loss",
                loss_of(model), "--rate", "1e-6", "--json", f"{own}/{name}_run.json", *more)
            return json.load(open(f"{own}/{name}_run.json"))["measured_iteration_s"]

        train("alone", "--trace", f"{own}/trace.json", "--trace-steps", str(a.steps - 2))
        run(f"{a.bin}/replay", f"{own}/trace.json", "--optimize", "--passes", "tensor_fusion", "--plan", plans["alone"],
            "--plan-out", plans["found"], "--json", f"{own}/replay.json")
        times = {n: [] for n in plans}
        for _ in range(a.rounds):
            for n in plans:
                times[n].append(train(n))
        measured = {n: statistics.median(t) for n, t in times.items()}
        replay = json.load(open(f"{own}/replay.json"))
        found = replay["optimized"]
        gain, predicted = measured["alone"] / measured["found"], found["speedup"]
        worst = max(worst, abs(predicted / gain - 1))
        weights = sum(len(b["tensors"]) for b in found["buckets"])
        print(f"| `{model}` | {weights}, {len(found['buckets'])} | {measured['alone'] * 1e3:.2f} | "
              f"{replay['iteration']['replayed_s'] * 1e3:.2f} | {measured['found'] * 1e3:.2f} | "
              f"{found['iteration_s'] * 1e3:.2f} | {gain:.3f} | {predicted:.3f} | {measured['ddp'] * 1e3:.2f} |",
              flush=True)
    print(f"speed-ups differ by {100 * worst:.1f}% at most")
    return worst > MOST


sys.exit(main())
