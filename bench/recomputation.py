#!/usr/bin/env python3
"""Memory of a rank and time of a step with results kept, recomputed, and in micro-batches: a table of measurements and
predictions. A time is the least of the rounds' medians.

usage: recomputation.py BIN_DIR [--backend cpu] [--steps 5] [--rounds 3] [--machine p100:1x1] [MODEL]...
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

MODELS = ["zoo:bert?layers=4&hidden=128&heads=4&seq=64&vocab=1000&batch=16",
          "zoo:gpt?layers=6&hidden=128&heads=4&seq=64&vocab=1000&batch=16",
          "zoo:resnet50?image=64&hidden=16&batch=16",
          "zoo:inception_v3?image=96&batch=8",
          "zoo:squeezenet1_1?image=96&batch=16"]
WAYS = [[], ["--recompute", "products"], ["--recompute", "every=4"], ["--recompute", "full"], ["--microbatches", "4"],
        ["--microbatches", "4", "--recompute", "full"]]


def result_of(command, out):
    subprocess.run([*command, "--json", out], check=True, stdout=subprocess.DEVNULL)
    return json.loads(out.read_text())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir", type=Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--steps", default="5")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--machine", default="p100:1x1")
    a = parser.parse_intermixed_args()
    print("| model | | ms | held, MB | said before, MB | error | simulated peak, MB |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for model in a.models or MODELS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            subprocess.run([a.bin_dir / "parallelize", model, "--machine", a.machine, "--max-proposals", "0", "--plans",
                            folder], check=True, stdout=subprocess.DEVNULL)
            plan = folder / "data.json"
            rounds = [[result_of([a.bin_dir / "train", plan, "--backend", a.backend, "--steps", a.steps, *way],
                                 folder / "run.json") for way in WAYS] for _ in range(a.rounds)]
            for way, runs in zip(WAYS, zip(*rounds)):
                run = runs[0]
                seconds = min(x["measured_iteration_s"] for x in runs)
                said = result_of([a.bin_dir / "simulate", plan, "--ranks", a.backend, *way], folder / "said.json")
                ranks = [m["bytes"] for m in run["memory"]]
                r = max(range(len(ranks)), key=lambda k: ranks[k])
                before = said["devices"][r]["held_bytes"]
                peak = said["devices"][r]["peak_bytes"]
                print(f"| {model if not way else ''} | {' '.join(f'`{w}`' for w in [' '.join(way)] if w) or 'kept'} | "
                      f"{seconds * 1e3:.1f} | {ranks[r] / 1e6:.2f} | {before / 1e6:.2f} | "
                      f"{(before / ranks[r] - 1) * 100:+.1f}% | {peak / 1e6:.2f} |", flush=True)


if __name__ == "__main__":
    main()
