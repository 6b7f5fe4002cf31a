#!/usr/bin/env python3
"""Trains models of the zoo on 1, 2, 4 and 8 ranks under every strategy that parallelize compares and under the one it
finds, and compares each step's loss with that of one device.

usage: training_matrix.py BIN_DIR [--ranks 1,2,4,8] [--steps 20] [--model TEXT]... [--keep DIR]

BIN_DIR has parallelize and train. Rows are models and numbers of ranks, columns are strategies: the largest relative
difference of a loss from that of the undivided graph on one device, in float32 on the cpu backend. Exit code 1 if one
is above 1e-4."""
import argparse, atexit, json, os, re, shutil, subprocess, sys, tempfile

# The batch size is per rank.
MODELS = [
    "zoo:mlp?layers=4&hidden=64&batch=8",
    "zoo:dlrm?form=ae&batch=8&hidden=16&vocab=200",
    "zoo:xdl?form=ae&layers=2&hidden=32&batch=8&vocab=200",
    "zoo:candle_uno?form=ae&layers=2&hidden=64&batch=8",
    "zoo:embedding_bag?batch=8&hidden=16&seq=4&vocab=100",
    "zoo:bert_large?layers=2&hidden=32&heads=4&seq=16&vocab=100&batch=2",
    "zoo:gpt?layers=2&hidden=32&heads=4&seq=16&vocab=100&batch=2",
    "zoo:resnext50?form=ae&image=32&hidden=16&batch=2",
    "zoo:resnet50?image=32&hidden=16&batch=2",
    "zoo:inception_v3?form=ae&image=75&batch=1",
    "zoo:rnnlm?layers=1&hidden=16&seq=4&vocab=100&batch=4",
    "zoo:lenet?batch=4",
]
MOST = 1e-4


def run(command, log):
    with open(log, "w") as out:
        return subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--ranks", default="1,2,4,8")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--model", action="append")
    parser.add_argument("--keep")
    a = parser.parse_args()
    folder = a.keep or tempfile.mkdtemp()
    if not a.keep:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    failed = 0
    compared = 0
    for model in a.model or MODELS:
        for ranks in map(int, a.ranks.split(",")):
            own = os.path.join(folder, re.sub(r"[^A-Za-z0-9=.]+", "_", model[4:]) + f"_{ranks}")
            shutil.rmtree(own, ignore_errors=True)  # left by an earlier run with --keep
            os.makedirs(own)
            found = run([f"{a.bin}/parallelize", model, "--machine", f"host:1x{ranks}", "--search", "unity",
                         "--max-proposals", "50", "--candidates", "4", "--budget", "1h",
                         "--plans", f"{own}/plans"], f"{own}/search.txt")
            if not found:
                print(f"{model} {ranks}: no plans: {open(f'{own}/search.txt').read().strip()[-500:]}", flush=True)
                failed += 1
                continue
            cells = []
            for plan in sorted(os.listdir(f"{own}/plans")):
                name = plan[:-5]
                trained = run([f"{a.bin}/train", f"{own}/plans/{plan}", "--backend", "cpu", "--steps", str(a.steps),
                               "--rate", "0.01", "--loss", "mean_square", "--check",
                               "--json", f"{own}/{name}.json"], f"{own}/{name}.txt")
                error = json.load(open(f"{own}/{name}.json"))["max_rel_error_vs_single"] if trained else float("inf")
                compared += 1
                failed += not error <= MOST
                cells.append(f"{name} {error:.1e}")
            print(f"{model.split('?')[0]} {ranks}: " + ", ".join(cells), flush=True)
    print(f"{compared} runs of {a.steps} steps, {failed} of them off by more than {MOST}"
          + (f"; files in {folder}" if a.keep else ""))
    return failed != 0


sys.exit(main())
