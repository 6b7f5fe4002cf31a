#!/usr/bin/env python3
"""What AutoDist's builders take on its clusters, simulated: by builder, and all-reduce by chunk.

usage: distribute_tables.py DISTRIBUTE [--models NAME,...]

Clusters are those of AutoDist's table 1 whose GPUs are known or near to known ones: A1 and A2 (Titan X there, 1080 Ti
here), B4 to B8 (T4). Batches are those of a device, times devices. Every node has one CPU for servers."""
import argparse
import json
import pathlib
import subprocess
import tempfile

CLUSTERS = {"A1": (16, 1, 40, "1080ti"), "A2": (11, 1, 40, "1080ti"), "B4": (1, 4, 50, "t4"), "B5": (2, 4, 50, "t4"),
            "B6": (3, 4, 50, "t4"), "B7": (4, 4, 50, "t4"), "B8": (8, 4, 50, "t4")}  # nodes, GPUs of each, Gb/s, kind
MODELS = {"VGG-16": ("zoo:vgg16", 32), "ResNet-101": ("zoo:resnet101", 32), "DenseNet-121": ("zoo:densenet121", 32),
          "Inception-v3": ("zoo:inception_v3", 32),
          "BERT-large": ("zoo:bert?layers=24&hidden=1024&heads=16&seq=128", 8),
          "BERT, 3 layers": ("zoo:bert?layers=3&hidden=768&heads=12&seq=128", 8),
          "DLRM": ("zoo:dlrm?form=ae&hidden=64&vocab=1000000", 64)}
CHUNKS = [1, 16, 64, 128, 512]


def distribute(program, folder, model, cluster, *more):
    nodes, gpus, speed, kind = CLUSTERS[cluster]
    spec = pathlib.Path(folder) / f"{cluster}.yml"
    spec.write_text("nodes:\n" + "".join(
        f"  - address: 10.0.0.{i + 1}\n    gpus: {list(range(gpus))}\n    network_bandwidth: {speed}\n"
        + ("    chief: true\n" if i == 0 else "") for i in range(nodes)))
    name, batch = MODELS[model]
    mark = "&" if "?" in name else "?"
    out = pathlib.Path(folder) / "result.json"
    subprocess.run([program, f"{name}{mark}batch={batch * nodes * gpus}", "--resources", f"{spec},{kind}", "--json",
                    str(out), *more], check=True, stdout=subprocess.DEVNULL)
    return json.loads(out.read_text())["strategies"]


def row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("distribute")
    parser.add_argument("--models", default=",".join(MODELS))
    a = parser.parse_args()
    models = [m for m in MODELS if m in a.models]
    with tempfile.TemporaryDirectory() as folder:
        has_head = False
        for model in models:
            for cluster in CLUSTERS:
                all_of = distribute(a.distribute, folder, model, cluster)
                if not has_head:
                    row(["model", "cluster"] + [s["name"] for s in all_of])
                    row(["---"] * (2 + len(all_of)))
                    has_head = True
                best = min(s["iteration_s"] for s in all_of)
                row([model, cluster] + [("**{:.1f}**" if s["iteration_s"] == best else "{:.1f}").format(
                    1e3 * s["iteration_s"]) for s in all_of])
        print()
        row(["model", "cluster"] + [f"chunk {c}" for c in CHUNKS])
        row(["---"] * (2 + len(CHUNKS)))
        for model in models:
            for cluster in ("A2", "B7"):
                times = [distribute(a.distribute, folder, model, cluster, "--strategy", "all_reduce", "--chunk",
                                    str(c))[0]["iteration_s"] for c in CHUNKS]
                row([model, cluster] + [f"{1e3 * t:.1f}" for t in times])


if __name__ == "__main__":
    main()
