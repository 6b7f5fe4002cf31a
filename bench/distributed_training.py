#!/usr/bin/env python3
"""Weight synchronization, simulated and measured: AutoDist's rules, chunk sizes, and the result of its search.

usage: distributed_training.py BIN_DIR [--ranks 2] [--on-ranks COMMAND] [--steps 10] [--rounds 3] [--model TEXT]...
                               [--trials 200] [--run-trials N] [--keep DIR]

BIN_DIR has calibrate, distribute and train. Ranks are threads of this machine, or processes that COMMAND starts
(slow_network.sh has one), and all of them compute and serve. Links and operators have the times that calibrate
measures, on one thread each. For each model it simulates and trains with every rule, with all-reduce at several chunk
sizes, and with the results of the search in --trials simulated trials and in N trials that are run (0: none). Rounds
are interleaved; times are medians. At the end it prints how many rules are predicted within 15%, and how many pairs of
rules, measured more than 5% apart, the simulator orders correctly.
Exit code 1 if the search's result is more than 5% slower than the fastest rule."""
import itertools, json, os, statistics, sys

from support.ranks import arguments, prepared, run

# The batch size is per rank; the last output is a loss.
MODELS = [
    "zoo:mlp?layers=4&hidden=768&batch=32",
    "zoo:ncf?hidden=32&vocab=20000&items=5000&batch=256",
    "zoo:rnnlm?layers=1&hidden=128&seq=8&vocab=5000&batch=16",
    "zoo:bert_large?layers=2&hidden=256&heads=4&seq=64&vocab=2000&batch=4",
]
CHUNKS = [1, 4, 16]
MOST = 0.15
APART = 0.05


def loss_of(model):
    return "cross_entropy" if "bert" in model or "rnnlm" in model else "mean_square"


def main():
    a = arguments(__doc__, 10, ("--trials", {"type": int, "default": 200}),
                  ("--run-trials", {"type": int, "default": 0}))
    folder, started, machine = prepared(a)
    measuring = ["--cost", "measured:cpu", "--timings", f"{folder}/timings.txt", "--backend-threads", "1"]
    within = pairs = right = slower = 0
    total = 0
    for number, model in enumerate(a.model or MODELS):
        own = f"{folder}/{number}"
        batch = int(model.rsplit("batch=", 1)[1])
        whole = f"{model.rsplit('batch=', 1)[0]}batch={batch * a.ranks}"
        train = [*started, f"{a.bin}/train", "{plan}", "--backend", "cpu", "--steps", str(a.steps), "--loss",
                 loss_of(model), "--rate", "1e-6", "--json", f"{own}/run.json"]
        os.makedirs(own, exist_ok=True)
        simulated = {}

        def distribute(name, *more):
            run(f"{a.bin}/distribute", whole, "--machine", machine, *measuring, "--out", f"{own}/{name}", "--json",
                f"{own}/{name}.json", *more)
            result = json.load(open(f"{own}/{name}.json"))
            simulated[name] = next(s["iteration_s"] for s in result["strategies"] if s["name"] == result["best"])
            return result

        rules = [s["name"] for s in distribute("fastest")["strategies"]]
        del simulated["fastest"]
        for name in rules:
            distribute(name, "--strategy", name)
        for chunk in CHUNKS:
            distribute(f"chunk {chunk}", "--strategy", "all_reduce", "--chunk", str(chunk))
        found = distribute("auto", "--strategy", "auto", "--trials", str(a.trials))["auto"]
        if a.run_trials:
            read = f"python3 -c 'import json; print(json.load(open(\"{own}/run.json\"))[\"measured_iteration_s\"])'"
            command = " ".join(f"'{part}'" if " " in part else part for part in train) + f" > {own}/log && {read}"
            distribute("auto, run", "--strategy", "auto", "--trials", str(a.run_trials), "--trial", command)
        times = {n: [] for n in simulated}
        for _ in range(a.rounds):
            for n in times:
                run(*[f"{own}/{n}/plan.json" if part == "{plan}" else part for part in train])
                times[n].append(json.load(open(f"{own}/run.json"))["measured_iteration_s"])
        measured = {n: statistics.median(t) for n, t in times.items()}
        print(f"{whole}: {found['trials']} simulated trials, {100 * found['hit_rate']:.0f}% of them faster than rules")
        for n in measured:
            error = measured[n] / simulated[n] - 1
            print(f"  {n:24} {1e3 * measured[n]:9.2f} ms measured {1e3 * simulated[n]:9.2f} simulated "
                  f"{100 * error:+6.1f}%", flush=True)
        compared = [n for n in measured if not n.startswith("auto")]
        total += len(compared)
        within += sum(abs(measured[n] / simulated[n] - 1) <= MOST for n in compared)
        for x, y in itertools.combinations(compared, 2):
            if abs(measured[x] - measured[y]) > APART * min(measured[x], measured[y]):
                pairs += 1
                right += (measured[x] < measured[y]) == (simulated[x] < simulated[y])
        best = min(rules, key=measured.get)
        slower += measured["auto"] > (1 + APART) * measured[best]
        print(f"  {best}, the fastest rule, over auto: {measured[best] / measured['auto']:.3f} measured, "
              f"{min(simulated[r] for r in rules) / simulated['auto']:.3f} simulated")
    print(f"{within} of {total} within {100 * MOST:.0f}%; {right} of {pairs} pairs in the order that was measured")
    return slower > 0


sys.exit(main())
