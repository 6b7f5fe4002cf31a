#!/usr/bin/env python3
"""Simulated time and memory of ways to synchronize weights, as a table: data parallelism with Adam.

usage: synchronization.py BIN_DIR [MODEL MACHINE]...
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SUBJECTS = [("zoo:alexnet?batch=64", "p100:4x4"), ("zoo:resnet50?batch=32", "p100:4x4"),
            ("zoo:bert?batch=8", "p100:4x4"), ("zoo:resnet50?batch=32", "dgx_a100:2x8"),
            ("zoo:bert?batch=8", "dgx_a100:2x8"), ("zoo:rnnlm?batch=64", "k80:4x4")]
WAYS = [None, "bucket=1MB", "bucket=25MB", "zero=1", "ps"]


def simulated(bin_dir, plan, way, folder):
    out = folder / "result.json"
    flags = ["--sync", way] if way else []
    command = [bin_dir / "simulate", plan, "--json", out, *flags]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads(out.read_text())


def main():
    bin_dir = Path(sys.argv[1])
    given = sys.argv[2:]
    subjects = list(zip(given[::2], given[1::2])) or SUBJECTS
    names = ["alone" if w is None else f"`{w}`" for w in WAYS]
    titles = [f"{n}, ms" for n in names] + ["alone, MB", "`zero=1`, MB", "`ps`, MB"]
    print("| model | machine | " + " | ".join(titles) + " |")
    print("|---|---|" + "---:|" * len(titles))
    for model, machine in subjects:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            subprocess.run([bin_dir / "parallelize", model, "--machine", machine, "--max-proposals", "0", "--optimizer",
                            "adam", "--plans", folder], check=True, stdout=subprocess.DEVNULL)
            all_of = [simulated(bin_dir, folder / "data.json", way, folder) for way in WAYS]
        peaks = [max(d["peak_bytes"] for d in r["devices"]) / 1e6 for r in all_of]
        cells = [f"{r['iteration_s'] * 1e3:.2f}" for r in all_of] + [f"{peaks[k]:.0f}" for k in (0, 3, 4)]
        print(f"| {model} | {machine} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
