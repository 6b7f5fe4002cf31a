#!/usr/bin/env python3
"""Simulated iteration times of AutoDist's builders on its clusters: by builder, and of all-reduce by chunk size.

usage: distribute_tables.py DISTRIBUTE [--models NAME,...] [--clusters NAME,...] [--searches [--seed N] [--trials N]]

--searches: prints a table of searches instead of those of rules. Searches are compared with the fastest rule, tried
with and without proxies and with all chunk sizes of the table of chunks.

Clusters are those of AutoDist's table 1: A1 and A2 (Titan X there, 1080 Ti here), B1 to B3 (M60), B4 to B8 (T4), and
of unlike nodes B9 (1 and 4 M60), B10 and B11 (M60 and T4), B12 (1 and 4 T4). Batches are those of a device,
times devices. Every node has one CPU for servers."""
import argparse
import json
import pathlib
import subprocess
import tempfile

# nodes, GPUs of each, Gb/s, kind
CLUSTERS = {"A1": [(16, 1, 40, "1080ti")], "A2": [(11, 1, 40, "1080ti")],
            "B1": [(2, 4, 25, "m60")], "B2": [(3, 4, 25, "m60")], "B3": [(4, 4, 25, "m60")],
            "B4": [(1, 4, 50, "t4")], "B5": [(2, 4, 50, "t4")], "B6": [(3, 4, 50, "t4")], "B7": [(4, 4, 50, "t4")],
            "B8": [(8, 4, 50, "t4")], "B9": [(1, 1, 10, "m60"), (1, 4, 25, "m60")],
            "B10": [(1, 4, 25, "m60"), (1, 4, 50, "t4")], "B11": [(2, 4, 25, "m60"), (2, 4, 50, "t4")],
            "B12": [(1, 1, 25, "t4"), (1, 4, 50, "t4")]}
MODELS = {"VGG-16": ("zoo:vgg16", 32), "ResNet-101": ("zoo:resnet101", 32), "DenseNet-121": ("zoo:densenet121", 32),
          "Inception-v3": ("zoo:inception_v3", 32),
          "BERT-large": ("zoo:bert?layers=24&hidden=1024&heads=16&seq=128", 8),
          "BERT, 3 layers": ("zoo:bert?layers=3&hidden=768&heads=12&seq=128", 8),
          "DLRM": ("zoo:dlrm?form=ae&hidden=64&vocab=1000000", 64),
          "NCF-large": ("zoo:ncf?form=large", 1024), "LM1B-like": ("zoo:rnnlm?hidden=1024&seq=20&vocab=100000", 32)}
SEARCHED = ["NCF-large", "VGG-16", "BERT-large", "ResNet-101", "LM1B-like"]
CHUNKS = [1, 16, 64, 128, 512]


def distribute(program, folder, model, cluster, *more):
    nodes = [node for count, *node in CLUSTERS[cluster] for _ in range(count)]
    spec = pathlib.Path(folder) / f"{cluster}.yml"
    spec.write_text("nodes:\n" + "".join(
        f"  - address: 10.0.0.{i + 1}\n    gpus: {list(range(gpus))}\n    network_bandwidth: {speed}\n"
        + ("    chief: true\n" if i == 0 else "") for i, (gpus, speed, _) in enumerate(nodes)))
    kinds = "+".join(kind for _, _, kind in nodes)
    name, batch = MODELS[model]
    mark = "&" if "?" in name else "?"
    out = pathlib.Path(folder) / "result.json"
    whole = f"{name}{mark}batch={batch * sum(gpus for gpus, _, _ in nodes)}"
    subprocess.run([program, whole, "--resources", f"{spec},{kinds}", "--json", str(out), *more], check=True,
                   stdout=subprocess.DEVNULL)
    return json.loads(out.read_text())


def row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def searches(a):
    """A row per model and cluster: the fastest rule, by default and tuned, and the results of searches."""
    row(["model", "cluster", "computing alone", "rule", "tuned rule", "auto", "random", "mcmc", "beam",
         "auto over rule", "over tuned", "first win", "hit rate", "pairs right"])
    row(["---"] * 14)
    with tempfile.TemporaryDirectory() as folder:
        for model in [m for m in SEARCHED if not a.models or m in a.models.split(",")]:
            for cluster in ("A2", "B7"):
                tuned = []
                for chunk in CHUNKS:
                    for more in ([], ["--proxies"]):
                        tuned += [(s["iteration_s"], s["name"], chunk, *more) for s in distribute(
                            a.distribute, folder, model, cluster, "--chunk", str(chunk), *more)["strategies"]]
                best = min(tuned)
                found = distribute(a.distribute, folder, model, cluster, "--strategy", "search", "--seed", str(a.seed),
                                   "--trials", str(a.trials))
                times = {s["name"]: s["iteration_s"] for s in found["strategies"]}
                auto = found["auto"]
                rule = auto["baseline_s"]
                name = next(n for n, t in times.items() if t == rule)
                ms = [f"{1e3 * t:.1f}" for t in (found["computing_s"], rule, best[0], times["auto"], times["random"],
                                                 times["mcmc"], times["beam"])]
                ms[1] += f" {name}"
                ms[2] += " " + " ".join(map(str, best[1:]))
                row([model, cluster, *ms, f"{rule / times['auto']:.3f}", f"{best[0] / times['auto']:.3f}",
                     str(auto["first_win"]), f"{auto['hit_rate']:.2f}",
                     f"{auto['pair_accuracy']:.3f} of {auto['pairs']}" if auto["pairs"] else "-"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("distribute")
    parser.add_argument("--models", default="")
    parser.add_argument("--clusters", default="")
    parser.add_argument("--searches", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=200)
    a = parser.parse_args()
    if a.searches:
        searches(a)
        return
    clusters = a.clusters.split(",") if a.clusters else CLUSTERS
    models = [m for m in MODELS if not a.models or m in a.models.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        names = []  # of the first model; other models lack the rules that do not apply to them
        for model in models:
            for cluster in clusters:
                all_of = distribute(a.distribute, folder, model, cluster)["strategies"]
                if not names:
                    names = [s["name"] for s in all_of]
                    row(["model", "cluster"] + names)
                    row(["---"] * (2 + len(names)))
                times = {s["name"]: s["iteration_s"] for s in all_of}
                best = min(times.values())
                row([model, cluster] + [("**{:.1f}**" if times[n] == best else "{:.1f}").format(1e3 * times[n])
                                        if n in times else "-" for n in names])
        if a.clusters:
            return
        print()
        row(["model", "cluster"] + [f"chunk {c}" for c in CHUNKS])
        row(["---"] * (2 + len(CHUNKS)))
        for model in models:
            for cluster in ("A2", "B7"):
                times = [distribute(a.distribute, folder, model, cluster, "--strategy", "all_reduce", "--chunk",
                                    str(c))["strategies"][0]["iteration_s"] for c in CHUNKS]
                row([model, cluster] + [f"{1e3 * t:.1f}" for t in times])


if __name__ == "__main__":
    main()
