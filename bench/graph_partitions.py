#!/usr/bin/env python3
"""Time of the slowest vertex range under different partitions of the vertices.

usage: graph_partitions.py PROGRAM [--graphs NAME,...] [--models NAME,...] [--ranks N] [--epochs N] [--rounds N]
                           [--machine NAME]... [--datasets]

PROGRAM is train_graph. Each partition trains on ranks of this process, one core each, in turn. The slowest part's
time is that of its operators in the last epoch, median over rounds. Learned ranges change after the third and the
sixth epoch. The error compares the times of all parts in the last epoch with their prediction from earlier epochs.
--machine: simulates that machine instead, by its devices' roofline; --datasets: graphs of the sizes of table 4.4 of
Jia's dissertation, with random edges, features and classes, and 256 columns after the first layer."""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

DIVISIONS = ["equal_vertices", "equal_edges", "metis", "learned"]
# name, vertices, edges from each vertex to earlier ones (half of those of the table), features, classes
DATASETS = [("Pubmed", 19717, 3, 500, 3), ("PPI", 56944, 14, 700, 121), ("Reddit", 232965, 247, 602, 41),
            ("Amazon", 9430088, 12, 300, 24)]


def run(program, graph, model, out, *flags):
    subprocess.run([program, graph, "--model", model, "--json", str(out), *flags], check=True,
                   stdout=subprocess.DEVNULL)
    return json.loads(out.read_text())


def row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def measured(a, graph, model, out):
    slowest, errors, epochs = {}, [], {}
    for _ in range(a.rounds):
        for d in DIVISIONS:
            r = run(a.program, graph, model, out, "--ranks", str(a.ranks), "--partition", d,
                    *(["--repartition-every", "3"] if d == "learned" else []), "--epochs", str(a.epochs),
                    "--dropout", "0")
            slowest.setdefault(d, []).append(max(p["measured_s"] for p in r["partition"]))
            epochs.setdefault(d, []).append(statistics.median(e["seconds"] for e in r["epochs"][-2:]))
            if d == "learned":
                errors += [abs(p["predicted_s"] / p["measured_s"] - 1) for p in r["partition"]]
    times = {d: statistics.median(slowest[d]) for d in DIVISIONS}
    row([graph, model] + [f"{times[d] * 1e3:.0f} ({times[d] / times['learned']:.2f})" for d in DIVISIONS]
        + [f"{statistics.median(epochs['learned']) * 1e3:.0f}",
           f"{100 * statistics.median(errors):.1f}%, {100 * max(errors):.1f}%"])


def simulated(a, name, graph, model, machine, out, *flags):
    s = run(a.program, graph, model, out, "--epochs", "0", "--machine", machine, "--dropout", "0", *flags)["simulated"]
    names = ["equal_vertices", "equal_edges", "learned"]
    held = s["learned"]["held_bytes"] * 1e-9
    row([name, model, machine]
        + [f"{s[d]['slowest_part_s'] * 1e3:.2f} ({s[d]['slowest_part_s'] / s['learned']['slowest_part_s']:.2f})"
           for d in names] + [f"{s[d]['epoch_s'] * 1e3:.2f}" for d in names]
        + [f"{held:.2f}" if s["learned"]["fits"] else f"{held:.2f}: does not fit"])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("--graphs", default="rmat:20:8000000,attached:1000000:8")
    p.add_argument("--models", default="gcn,sage_mean,gin")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--machine", action="append", default=[])
    p.add_argument("--datasets", action="store_true")
    a = p.parse_args()
    cases = [(g, m) for g in a.graphs.split(",") for m in a.models.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "result.json"
        if not a.machine:
            row(["graph", "model"] + [f"{d}, ms" for d in DIVISIONS] + ["learned: epoch, ms", "error, median, most"])
            row(["---"] * 8)
            for graph, model in cases:
                measured(a, graph, model, out)
            return
        row(["graph", "model", "machine", "equal vertices, ms", "equal edges, ms", "learned, ms",
             "epoch: equal vertices, ms", "equal edges, ms", "learned, ms", "held, GB"])
        row(["---"] * 10)
        for machine in a.machine:
            for graph, model in [] if a.datasets else cases:
                simulated(a, graph, graph, model, machine, out)
            for name, vertices, each, features, classes in DATASETS if a.datasets else []:
                for model in a.models.split(","):
                    simulated(a, name, f"attached:{vertices}:{each}", model, machine, out, "--features", str(features),
                              "--classes", str(classes), "--hidden", "256", "--raw-features")


if __name__ == "__main__":
    main()
