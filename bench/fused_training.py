#!/usr/bin/env python3
"""Kernels and buckets that `fuse` finds, compared with DDP's buckets: simulated, and trained on ranks.

usage: fused_training.py BIN_DIR [--ranks 2] [--on-ranks COMMAND] [--steps 12] [--rounds 3] [--model TEXT]...
                         [--estimator FILE] [--keep DIR]

BIN_DIR has calibrate, fuse and train. Ranks are threads of this machine, or processes that COMMAND starts
(slow_network.sh has one). `calibrate` measures machine and network; `fuse --cost measured:cpu` times operators,
estimates kernels with the estimator, and searches. For graphs of primitives and of operators, the result and DDP's
buckets of 25 MB are trained alternately; for operators, DDP is `train` with the plan alone. Errors compare simulated
and measured medians. Exit code 1 if one is over 10%."""
import json, statistics, sys

from support.ranks import arguments, prepared, run

MODELS = [
    "zoo:resnet50?image=64&batch=4&hidden=32",
    "zoo:transformer?layers=2&hidden=128&heads=4&seq=32&vocab=1000&batch=4",
    "zoo:rnnlm?layers=2&hidden=256&seq=8&vocab=1000&batch=8",
    "zoo:bert?layers=2&hidden=128&heads=4&seq=32&vocab=1000&batch=4",
    "zoo:reformer?layers=2&hidden=128&heads=4&seq=128&vocab=1000&batch=2",
    "zoo:vgg19?batch=1",
]
FEW = {"zoo:vgg19?batch=1": 3}  # number of steps where one takes ten seconds
MOST = 0.10
GRAINS = ["primitives", "operators"]
ESTIMATOR = "examples/data/kernel_estimator.bin"


def main():
    a = arguments(__doc__, 12, ("--estimator", {"default": ESTIMATOR}))
    folder, started, machine = prepared(a)
    worst = 0
    print("| model | " + " | ".join(f"{g}: found, ms | simulated | error | DDP, ms | simulated | speed-up"
                                     for g in GRAINS) + " |\n" + "|---" * (1 + 6 * len(GRAINS)) + "|")
    for number, model in enumerate(a.model or MODELS):
        own = f"{folder}/{number}"
        ways = [(grain, strategy) for grain in GRAINS for strategy in ("disco", "ddp")]
        simulated = {}
        for grain, strategy in ways:
            name = f"{own}_{grain}_{strategy}"
            run(f"{a.bin}/fuse", model, "--machine", machine, "--cost", "measured:cpu", "--backend-threads", "1",
                "--timings", f"{own}_timings", "--budget", "5s", "--seed", "1", "--reductions", "curve",
                "--estimator", a.estimator, "--grain", grain, "--strategy", strategy, "--out", name,
                "--json", f"{name}.json")
            strategies = json.load(open(f"{name}.json"))["strategies"]
            simulated[grain, strategy] = [s["iteration_s"] for s in strategies if s["name"] == strategy][0]

        def train(grain, strategy):
            name = f"{own}_{grain}_{strategy}"
            alone = (grain, strategy) == ("operators", "ddp")
            run(*started, f"{a.bin}/train", f"{name}/plan.json", "--backend", "cpu", "--rate", "1e-6",
                "--steps", str(FEW.get(model, a.steps)), "--json", f"{name}_run.json",
                *([] if a.on_ranks else ["--ranks", str(a.ranks)]),
                *([] if alone else ["--fusion", f"{name}/fusion.json"]))
            return json.load(open(f"{name}_run.json"))["measured_iteration_s"]

        times = {way: [] for way in ways}
        for _ in range(a.rounds):
            for way in ways:
                times[way].append(train(*way))
        measured = {way: statistics.median(t) for way, t in times.items()}
        cells = []
        for grain in GRAINS:
            found, ddp = (grain, "disco"), (grain, "ddp")
            error = simulated[found] / measured[found] - 1
            worst = max(worst, abs(error))
            cells += [f"{1e3 * measured[found]:.2f}", f"{1e3 * simulated[found]:.2f}", f"{100 * error:+.1f}%",
                      f"{1e3 * measured[ddp]:.2f}", f"{1e3 * simulated[ddp]:.2f}",
                      f"{measured[ddp] / measured[found]:.3f}"]
        print(f"| `{model}` | " + " | ".join(cells) + " |", flush=True)
    print(f"what was found is simulated {100 * worst:.1f}% off at most")
    return worst > MOST


sys.exit(main())
