#!/usr/bin/env python3
"""Measured iteration times of GPT training, compared with the predictions of `simulate`, which are not fitted to them.

bench/published_iterations.py PATH/TO/simulate [--cost kernels] [--rows FILE]

FILE is bench/published_iterations.csv (published A100 times) or an output of torch_iterations.py, such as
bench/torch_iterations_h100.csv. `derived` rows follow from published teraFLOP/s by the paper's own formula; `assumed`
parts of a plan are not in the paper. Exit code 1 if `simulate` fails.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def predicted(simulate, row, cost):
    """The JSON that simulate prints for a row."""
    sizes = ("layers", "hidden", "heads", "seq", "vocab")
    model = "zoo:gpt?form=training&" + "&".join(f"{key}={row[key]}" for key in sizes)
    gpus = int(row["gpus"])
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "result.json"
        machine = row.get("machine") or f"dgx_a100_80:{max(1, gpus // 8)}x{min(8, gpus)}"
        command = [simulate, model, "--plan", row["plan"], "--machine", machine, "--element", "bfloat16",
                   "--optimizer", "adam", "--json", str(out)]
        subprocess.run(command + (["--cost", cost] if cost else []), check=True, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text())


def ranks(values):
    """Ranks in ascending order; ties get their mean rank."""
    return [sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values]


def rank_correlation(x, y):
    """Spearman's rank correlation."""
    a, b = ranks(x), ranks(y)
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    top = sum((p - mean_a) * (q - mean_b) for p, q in zip(a, b))
    below = (sum((p - mean_a) ** 2 for p in a) * sum((q - mean_b) ** 2 for q in b)) ** 0.5
    return top / below if below else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("simulate")
    parser.add_argument("--cost", default="")
    parser.add_argument("--rows", default=HERE / "published_iterations.csv")
    arguments = parser.parse_args()
    with open(arguments.rows, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    print("| model | GPUs | plan | measured, s | | predicted, s | from, to | error, % | most memory, GB |")
    print("|---|---:|---|---:|---|---:|---:|---:|---:|")
    published, times, held = [], [], 0
    for row in rows:
        try:
            result = predicted(arguments.simulate, row, arguments.cost)
        except subprocess.CalledProcessError as e:
            sys.exit(f"published_iterations: {row['plan']}: simulate ended with {e.returncode}")
        published.append(float(row["iteration_s"]))
        times.append(result["iteration_s"])
        low, high = result["interval_s"]
        held += low <= published[-1] <= high
        assumed = [f"{row['assumed']} assumed"] if row["assumed"] else []
        notes = ", ".join(["derived"] * (row["derived"] == "yes") + assumed)
        print(f"| {row['model']} | {row['gpus']} | `{row['plan']}` | {published[-1]:.4g} | {notes} | {times[-1]:.4g} "
              f"| {low:.4g}, {high:.4g} | {100 * (times[-1] / published[-1] - 1):+.1f} "
              f"| {result['memory_peak_bytes'] * 1e-9:.1f} |")
    errors = [abs(t / p - 1) for t, p in zip(times, published)]
    print(f"\nmean error {100 * sum(errors) / len(errors):.1f}%, worst {100 * max(errors):.1f}%, "
          f"rank correlation {rank_correlation(times, published):.3f} of {len(rows)} rows, "
          f"{held} within their interval")


if __name__ == "__main__":
    main()
