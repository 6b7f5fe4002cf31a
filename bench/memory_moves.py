#!/usr/bin/env python3
"""Training in a limited arena: losses, bytes moved and time, planned and measured.

usage: memory_moves.py BIN_DIR [--models NAME,...] [--shares X,...] [--steps N] [--rounds N]

BIN_DIR has parallelize and train. Each model trains on one device of this machine without a limit, then in arenas of
the given shares of the unlimited size. The predicted time is the unlimited one plus that of the additional moves, at
the rate at which this machine copies uncached blocks of 64 MB. Runs alternate; times are medians over rounds."""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy


def copy_rate():
    """Bytes per second of a copy."""
    source, to = numpy.ones(1 << 27, numpy.float32), numpy.zeros(1 << 27, numpy.float32)
    size, rates = 1 << 24, []
    for _ in range(3):
        for i in range(0, 1 << 27, size):
            start = time.perf_counter()
            to[i:i + size] = source[i:i + size]
            rates.append(4 * size / (time.perf_counter() - start))
    return statistics.median(rates)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bin", type=pathlib.Path)
    p.add_argument("--models", default="zoo:resnet50?batch=4,zoo:bert?layers=4&hidden=256&heads=4&seq=128&batch=8,"
                                       "zoo:inception_v3?batch=2")
    p.add_argument("--shares", default="0.8,0.6,0.4")
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    rate = copy_rate()
    print(f"copies {rate * 1e-9:.1f} GB/s\n\n| model | arena, MB | moved, MB | said, MB | iteration, ms | "
          "predicted, ms | error | losses |\n|" + "---|" * 8)
    with tempfile.TemporaryDirectory() as folder:
        for model in a.models.split(","):
            subprocess.run([a.bin / "parallelize", model, "--machine", "host:1x1", "--max-proposals", "0", "--out",
                            folder], check=True, stdout=subprocess.DEVNULL)

            def train(*flags):
                out = f"{folder}/result.json"
                subprocess.run([a.bin / "train", f"{folder}/plan.json", "--steps", str(a.steps), "--loss",
                                "mean_square", "--rate", "1e-6", "--json", out, *flags],
                               check=True, stdout=subprocess.DEVNULL)
                return json.loads(pathlib.Path(out).read_text())

            whole = train()
            arena = whole["memory"][0]["arena_bytes"]
            limits = {None: [], **{int(arena * float(x)): [] for x in a.shares.split(",")}}
            for _ in range(a.rounds):
                for limit in list(limits):
                    try:
                        limits[limit].append(train(*([] if limit is None else ["--memory", str(limit)])))
                    except subprocess.CalledProcessError:
                        limits.pop(limit)  # below the least arena

            def seconds(runs):
                return statistics.median(r["measured_iteration_s"] for r in runs)

            def moved(run):
                m = run["memory"][0]
                return m["loaded_bytes"] + m["stored_bytes"]

            base = seconds(limits[None])
            for limit, runs in limits.items():
                m = runs[0]["memory"][0]
                said = m.get("predicted_loaded_bytes", m["loaded_bytes"]) + m.get("predicted_stored_bytes", 0)
                predicted = base + (moved(runs[0]) - moved(limits[None][0])) / rate
                error = 100 * (seconds(runs) / predicted - 1)
                losses = "same" if runs[0]["loss"] == limits[None][0]["loss"] else "others"
                print(f"| {model} | {m['arena_bytes'] * 1e-6:.1f} | {moved(runs[0]) * 1e-6:.1f} | {said * 1e-6:.1f} | "
                      f"{seconds(runs) * 1e3:.1f} | {predicted * 1e3:.1f} | {error:+.1f}% | {losses} |", flush=True)


if __name__ == "__main__":
    main()
