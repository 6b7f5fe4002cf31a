#!/usr/bin/env python3
"""Iterations of training, simulated and measured: every strategy that parallelize compares, and the found one.

usage: simulated_and_measured.py BIN_DIR [--ranks 2] [--on-ranks COMMAND] [--steps 15] [--rounds 3]
                                 [--model TEXT]... [--keep DIR]

BIN_DIR has calibrate, parallelize and train. Ranks are threads of this machine, or processes that COMMAND starts
(slow_network.sh has one). The links are those that calibrate measures. Operators take what they are measured to take,
on one thread each: once for finding plans, and again by each run of a plan, after it has trained. A row per model and
plan: medians over the rounds, with the interval of the simulated iterations of all rounds, from all operators and
exchanges at the 10th percentile of their measured times to all at the 90th; then for each model how much faster than
data parallelism the found plan is, and how well the simulator orders all plans (Spearman's rank correlation; equal
plans count once).
Exit code 1 where an iteration is off by more than 15%, or the found plan, simulated to be faster than data parallelism
by more than 20%, is not."""
import json, os, shutil, statistics, sys

from support.ranks import arguments, prepared, run

# The batch is of each rank.
MODELS = [
    "zoo:mlp?layers=4&hidden=1024&batch=32",
    "zoo:dlrm?form=ae&batch=128&hidden=64&vocab=20000",
    "zoo:xdl?form=ae&layers=4&hidden=512&batch=64&vocab=20000",
    "zoo:candle_uno?form=ae&layers=3&hidden=512&batch=32",
    "zoo:bert_large?layers=2&hidden=256&heads=4&seq=64&vocab=2000&batch=4",
    "zoo:gpt?layers=2&hidden=256&heads=4&seq=64&vocab=2000&batch=4",
    "zoo:resnext50?form=ae&image=64&hidden=16&batch=8",
    "zoo:lenet?batch=64",
]
MOST = 0.15


# Where outputs are numbers of classes, labels are; targets of as many numbers would be long to make.
def loss_of(model):
    return "cross_entropy" if any(name in model for name in ("bert", "gpt", "resnext", "lenet")) else "mean_square"


def ranks_of(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0.0] * len(values)
    for place, i in enumerate(order):
        ranks[i] = place
    return ranks


def spearman(x, y):
    if len(x) < 2:
        return 1.0
    a, b = ranks_of(x), ranks_of(y)
    n = len(x)
    return 1 - 6 * sum((p - q) ** 2 for p, q in zip(a, b)) / (n * (n * n - 1))


def main():
    a = arguments(__doc__, 15)
    folder, started, machine = prepared(a)
    timings = f"{folder}/timings.txt"
    measuring = ["--cost", "measured:cpu", "--timings", timings, "--backend-threads", "1"]
    measuring_now = ["--cost", "measured:cpu", "--timings", "none", "--backend-threads", "1"]
    errors, correlations, failed, held = [], [], 0, 0
    for number, model in enumerate(a.model or MODELS):
        own = f"{folder}/{number}"
        shutil.rmtree(own, ignore_errors=True)  # of an earlier run with --keep
        run(f"{a.bin}/parallelize", model, "--machine", machine, "--search", "unity",
            "--budget", "1h", "--patience", "0", "--plans", f"{own}/plans", *measuring)
        names = sorted(p[:-5] for p in os.listdir(f"{own}/plans"))
        results = {n: [] for n in names}
        for _ in range(a.rounds):
            for n in names:
                run(*started, f"{a.bin}/train", f"{own}/plans/{n}.json", "--backend", "cpu", "--steps", str(a.steps),
                    "--loss", loss_of(model), "--rate", "1e-6", "--json", f"{own}/{n}.json", *measuring_now)
                results[n].append(json.load(open(f"{own}/{n}.json")))
        measured = {n: statistics.median(r["measured_iteration_s"] for r in rs) for n, rs in results.items()}
        simulated = {n: statistics.median(r["simulated_iteration_s"] for r in rs) for n, rs in results.items()}
        # The machine's speed changes between sittings, so that a prediction is as uncertain as all of them together.
        intervals = {n: [r["simulated_interval_s"] for r in rs] for n, rs in results.items()}
        interval = {n: (min(i[0] for i in all), max(i[1] for i in all)) for n, all in intervals.items()}
        print(model)
        for n, rs in results.items():
            critical = max(range(a.ranks), key=lambda r: rs[0]["breakdown"][r]["compute_s"])
            share = {k: statistics.median(r["breakdown"][critical][k + "_s"] for r in rs)
                     for k in ("compute", "update", "communication", "waiting", "other")}
            error = measured[n] / simulated[n] - 1
            errors.append(error)
            held += interval[n][0] <= measured[n] <= interval[n][1]
            print(f"  {n:11} {measured[n] * 1e3:8.2f} ms measured {simulated[n] * 1e3:8.2f} simulated "
                  f"({interval[n][0] * 1e3:.2f} to {interval[n][1] * 1e3:.2f}) {100 * error:+6.1f}%; "
                  f"computing {(share['compute'] + share['update']) * 1e3:.2f} measured "
                  f"{rs[0]['simulated_computing_s'][critical] * 1e3:.2f} simulated; "
                  f"communicating {share['communication'] * 1e3:.2f}, waiting {share['waiting'] * 1e3:.2f}, "
                  f"else {share['other'] * 1e3:.2f}", flush=True)
        once = list({open(f"{own}/plans/{n}.json").read(): n for n in names}.values())
        correlations.append(spearman([simulated[n] for n in once], [measured[n] for n in once]))
        gain = {k: t["data"] / t["unity"] for k, t in (("measured", measured), ("simulated", simulated))}
        failed += gain["simulated"] > 1.2 and gain["measured"] <= 1
        print(f"  data over unity: {gain['measured']:.2f} measured, {gain['simulated']:.2f} simulated")
        print(f"  rank correlation of {len(once)} different plans: {correlations[-1]:.2f}")
    within = sum(abs(e) <= MOST for e in errors)
    print(f"{within} of {len(errors)} within {100 * MOST:.0f}%, "
          f"median {100 * statistics.median(map(abs, errors)):.1f}%, most {100 * max(map(abs, errors)):.1f}%; "
          f"{held} within their interval; "
          f"rank correlation: mean {statistics.mean(correlations):.2f}, least {min(correlations):.2f}")
    return within < len(errors) or failed > 0


sys.exit(main())
